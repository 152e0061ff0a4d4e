/** The end of a file with several runs: those of the same rows are compared. */
import { describe, expect, it } from 'vitest';
import { chatServer } from '../models/chat-server.ts';
import { EvalFolder } from './vf-eval-process.ts';

interface Json {
  readonly runs: readonly object[];
  readonly comparisons?: readonly {
    readonly rows: number;
    readonly sides: readonly { readonly run: string; readonly mean: { readonly value: number } }[];
    readonly pairs: readonly {
      readonly first: string;
      readonly second: string;
      readonly difference: { readonly value: number };
      readonly mcnemar: { readonly p: number };
    }[];
  }[];
}

/** Another environment: other rows under other ids. */
const OTHER = `
import { Dataset, reward, Rubric, SingleTurnEnv } from 'vf-search';
export const loadEnvironment = () => new SingleTurnEnv({
  id: 'other',
  eval: new Dataset('other', [{ exampleId: 'o1', prompt: [{ role: 'user', content: 'Say Paris.' }], answer: 'Paris' }]),
  rubric: new Rubric({ funcs: [reward(({ modelText }) => Number(modelText.includes('Paris')), { name: 'said' })] }),
});
`;

describe('a file with several runs', { timeout: 60_000 }, () => {
  it('ends with a comparison of the runs that played the same rows, with the first of them', async () => {
    // Right at temperature 0 alone.
    await using server = await chatServer(({ temperature }) => (temperature === 0 ? '<answer>Paris</answer>' : '<answer>Rome</answer>'));
    using folder = new EvalFolder();
    folder.file('environments/other/environment.mjs', OTHER);
    const policy = `api_base_url = "${server.url}/v1"\nmodel = "m"\napi_client_type = "chat"\n`;
    const runs = `${policy}[[eval]]\nenv_id = "other"\n[[ablation]]\nenv_id = "capitals"\nnum_examples = 12\nargs = { format = "chat" }\n[ablation.sweep]\ntemperature = [1.0, 0.0]\n`;
    folder.file('runs.toml', runs);
    const json = await folder.run(['runs.toml', '--json']);
    const { runs: all, comparisons } = JSON.parse(json.stdout) as Json;
    expect({ code: json.code, runs: all.length, comparisons: comparisons!.length }).toEqual({ code: 0, runs: 3, comparisons: 1 });
    expect(comparisons![0]).toMatchObject({
      rows: 12,
      sides: [
        { run: 'temperature 1', mean: { value: 0 } },
        { run: 'temperature 0', mean: { value: 1 } },
      ],
      pairs: [{ first: 'A', second: 'B', difference: { value: 1, low: null, high: null }, mcnemar: { p: 2 / 2 ** 12 } }],
    });
    expect(json.stdout).not.toContain('row_differences');
    const text = await folder.run(['runs.toml', '-A']);
    expect(text.stdout).toMatch(/\n\n2 runs of capitals on the same 12 rows\n/);
    expect(text.stdout).toMatch(/^B +1\.000 .* \+1\.000 +p = 0\.0005 +temperature 0$/m);
    expect(text.stdout.trimEnd()).toMatch(/vf-compare\.js outputs\/evals\/capitals--m\/\w+ outputs\/evals\/capitals--m\/\w+$/);
  });

  it('ends without one where no two runs share rows', async () => {
    using folder = new EvalFolder();
    folder.file('environments/other/environment.mjs', OTHER);
    folder.file('runs.toml', 'num_examples = 1\n[[eval]]\nenv_id = "other"\n[[eval]]\nenv_id = "capitals"\n');
    const { code, stdout } = await folder.run(['runs.toml', '--json']);
    expect({ code, ...(JSON.parse(stdout) as Json) }).toMatchObject({ code: 0, runs: [{}, {}] });
    expect(stdout).not.toContain('comparisons');
  });
});
