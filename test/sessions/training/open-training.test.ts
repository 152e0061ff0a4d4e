/** What `vf-train` says of its evaluation rows, in short real runs with the embedded engine. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { runInProcess } from '../../cli/in-process.ts';

/** Its rows of training are those of evaluation. */
const ENVIRONMENT = `
import { Dataset, reward, Rubric, SingleTurnEnv } from 'vf-search';
export async function loadEnvironment() {
  const rows = ['a', 'b'].map((id) => ({ exampleId: id, prompt: [{ role: 'user', content: 'Question: ' + id }], answer: id }));
  const share = ({ modelText }) => ([...modelText].filter((c) => c === 'e').length % 3) / 2;
  return new SingleTurnEnv({
    id: 'tiny', turnFormat: 'continuation', limits: { responseTokens: 8 }, train: new Dataset('tiny', rows), eval: new Dataset('tiny', rows),
    rubric: new Rubric({ funcs: [reward(share, { name: 'share' })] }),
  });
}
`;

async function linesOf(every: number): Promise<string> {
  using folder = new TemporaryFolder();
  const environment = join(folder.path, 'environment.mjs');
  writeFileSync(environment, ENVIRONMENT);
  const small = ['-m', 'nano-base', '--embedded', '--rank', '8', '--steps', '1', '-n', '2', '-r', '2', '--plain', '-o', folder.path];
  const words = [environment, ...small, '--set', `evaluation.every=${every}`, '--set', 'policy.embedded.threads=1'];
  const { code, stdout, stderr } = await runInProcess('vf-train', words, { cwd: folder.path, env: { HOME: folder.path } });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) as string });
  return stdout + stderr;
}

describe('openTraining', () => {
  it('says that the evaluation rows are the training rows where an evaluation is taken, and only there', { timeout: 120_000 }, async () => {
    const said = 'The evaluation rows are training rows; set environment.eval_args';
    expect(await linesOf(1)).toContain(said);
    expect(await linesOf(0)).not.toContain(said);
  });
});
