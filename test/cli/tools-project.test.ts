/** The example project with tools as a user has it: its own tsconfig, the package as a dependency, its tests, a first evaluation without a model. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const root = join(import.meta.dirname, '../..');
const modules = join(root, 'node_modules');
let project: string;
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'vf-tools-project-'));
  cpSync(join(root, 'examples/tools-project'), project, { recursive: true });
  mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
  symlinkSync(root, join(project, 'node_modules/vf-search'));
  for (const name of ['typescript', 'tsx', '@types/node']) symlinkSync(join(modules, name), join(project, 'node_modules', name));
});
afterAll(() => rmSync(project, { recursive: true }));

function run(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: project, env: BARE_ENVIRONMENT }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

const types = () => run([join(modules, 'typescript/bin/tsc'), '--pretty', 'false']);
const evaluate = (...words: readonly string[]) => run([join(root, 'bin/vf-eval.js'), 'price-desk', '--json', ...words]);
const environment = () => join(project, 'environments/price-desk/environment.ts');

interface Summary {
  readonly model: string;
  readonly reward: { readonly value: number };
  readonly metrics: Record<string, { readonly value: number }>;
}

describe('examples/tools-project', { timeout: 120_000 }, () => {
  it('fits the types of the package, and a misspelled option does not', async () => {
    expect(await types()).toEqual({ code: 0, stdout: '', stderr: '' });
    const text = readFileSync(environment(), 'utf8');
    writeFileSync(environment(), text.replace('maxTurns: 5', 'maxTurn: 5'));
    const refused = await types();
    writeFileSync(environment(), text);
    expect({ ...refused, code: refused.code > 0 }).toMatchObject({ code: true, stdout: expect.stringContaining('maxTurn') as string });
  });

  it('passes its own tests, which fail where a tool is wrong', async () => {
    const test = () => run(['--conditions=vf-search-source', '--test', 'environments/price-desk/environment.test.ts']);
    expect(await test()).toMatchObject({ code: 0, stdout: expect.stringMatching(/pass 2\b/) as string });
    const text = readFileSync(environment(), 'utf8');
    writeFileSync(environment(), text.replace("['apple', 40]", "['apple', 41]"));
    expect((await test()).code).toBe(1);
    writeFileSync(environment(), text);
  });

  it.each(['native', 'text'])('is evaluated at once by its scripted policy, which uses both tools: %s calls', async (calls) => {
    const { code, stdout } = await evaluate('-n', '10', '-a', JSON.stringify({ calls }), '-o', calls);
    const { model, reward, metrics } = JSON.parse(stdout) as Summary;
    expect({ code, model }).toEqual({ code: 0, model: 'price-desk-baseline' });
    expect(reward.value).toBeCloseTo(1.2, 12);
    expect([metrics['isRight'], metrics['find_price_calls'], metrics['add_calls'], metrics['bad_tool_calls']].map((one) => one?.value)).toEqual([
      1, 2, 1, 0,
    ]);
    const [run_] = readdirSync(join(project, calls, 'evals/price-desk--price-desk-baseline'));
    const line = readFileSync(join(project, calls, 'evals/price-desk--price-desk-baseline', run_!, 'results.jsonl'), 'utf8').split('\n')[0]!;
    const { completion } = JSON.parse(line) as { completion: readonly { role: string; tool_calls?: readonly unknown[] }[] };
    expect(completion.map(({ role, tool_calls: made = [] }) => [role, made.length])).toEqual(
      calls === 'native'
        ? [
            ['assistant', 2],
            ['tool', 0],
            ['tool', 0],
            ['assistant', 1],
            ['tool', 0],
            ['assistant', 0],
          ]
        : [
            ['assistant', 0],
            ['user', 0],
            ['assistant', 0],
            ['user', 0],
            ['assistant', 0],
          ],
    );
  });
});
