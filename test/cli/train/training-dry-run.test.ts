import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { trainingDryRun } from '../../../src/cli/train/training-dry-run.ts';
import { readTrainingConfig } from '../../../src/cli/train/read-training-config.ts';
import { parseTrainArguments } from '../../../src/cli/train/arguments.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';

const ENVIRONMENT = `
import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';
export function loadEnvironment() {
  const row = { exampleId: 'a', prompt: [{ role: 'user', content: 'Who?' }], answer: 'I' };
  return new SingleTurnEnv({ id: 'one', eval: new Dataset('one', [row]), rubric: new Rubric({ funcs: [function one() { return 1; }] }) });
}`;

describe('trainingDryRun', () => {
  it('says that a length is left to the model where the environment sets none', async () => {
    using folder = new TemporaryFolder();
    const path = join(folder.path, 'environment.mjs');
    writeFileSync(path, ENVIRONMENT);
    const parsed = parseTrainArguments([path, '-m', 'M', '-b', 'http://127.0.0.1:9/v1', '-n', '1', '--dry-run'], '0');
    if (parsed.kind !== 'train') throw new Error(`Expected arguments of a run, got ${parsed.kind}`);
    const setup = await readTrainingConfig(parsed, { variables: {}, environmentFile: join(folder.path, '.env') });
    const text = await trainingDryRun(setup, {}, new AbortController().signal);
    expect(text).not.toContain('Infinity');
    expect(text).toMatch(/^lengths +.*the model's window$/m);
  });
});
