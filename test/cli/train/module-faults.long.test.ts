// @module-tag long
/** A module of the user's that fails in a step: what vf-train says, and that the printed command works once the module is corrected. */
import { copyFileSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TrainFolder } from '../../vllm/train-process.ts';

const ALONE = { PATH: '/nonexistent', VF_BASE_URL: '' };
const SETTINGS = ['evaluation.every=0', 'checkpoint.every=1', 'policy.embedded.threads=1', 'rollouts.max_tokens=12'];
const WORDS = ['toy.ts', '--preset', 'laptop', '-n', '2', '-r', '4', '-o', '.', '--steps', '3', ...SETTINGS.flatMap((each) => ['--set', each])];

/** Right on the made-up rollouts and in step 1. */
const loss = (returned: string) => `let calls = 0;
export const createLoss = () => ({ needs: { old: false, reference: false, sampler: false }, evaluate({ logProbs, advantages }, counts) {
  calls += 1;
  const right = { loss: 0, gradient: advantages.map((advantage) => -advantage / counts.tokens), metrics: {} };
  return ${returned};
} });\n`;
const credit = (returned: string) => `export const createCredit = () => ({ assign: ({ step, groups }) => {
  const right = { advantages: groups.map((group) => group.map(({ reward }, i) => i - 1.5)) };
  return ${returned};
} });\n`;
const source = (returned: string) => `export const createSource = ({ environment, play }) => ({
  async take(step, signal) {
    const right = await play({ step, rows: [environment.train.at(step), environment.train.at(step + 1)] }, signal);
    return ${returned};
  },
  needsPolicy: () => true, saveState: async () => {}, loadState: async () => {},
});\n`;

let folder: TrainFolder;
beforeEach(() => {
  folder = new TrainFolder();
  copyFileSync(join(import.meta.dirname, 'toy-with-faults.ts'), join(folder.path, 'toy.ts'));
  symlinkSync(join(import.meta.dirname, '../../../node_modules'), join(folder.path, 'node_modules'));
});
afterEach(() => folder[Symbol.dispose]());

describe('vf-train with a module that fails in a step', { timeout: 300_000 }, () => {
  it.each([
    [
      'loss',
      'losses.mine={use = "./mine.ts", weight = 0.5}',
      loss,
      'calls > 2 ? { ...right, gradient: right.gradient.map(() => NaN) } : right',
      /gradient must be finite in single precision, got NaN at token 0 of the rollout \w+\/0/,
    ],
    [
      'credit',
      'algorithm.advantage.use=./mine.ts',
      credit,
      'step > 1 ? { advantages: groups.map((group) => group.map(() => NaN)) } : right',
      /of the rollout \w+\/0, must be finite, got NaN/,
    ],
    ['source', 'source=./mine.ts', source, 'step > 1 ? {} : right', /take\(2\) of the source .*mine\.ts returned a wrong batch/],
  ])('stops, names the module, and continues by the printed command once it is corrected: %s', async (_, setting, text, wrong, problem) => {
    const path = join(folder.path, 'mine.ts');
    writeFileSync(path, text(wrong));
    const { code, stdout, stderr } = await folder.start([...WORDS, '--set', setting], ALONE).ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(problem)]);
    expect(stderr).not.toMatch(/learning rate/);
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'stopped', step: 1, message: expect.stringMatching(problem) });
    const printed = /: correct (\S+), then continue this run with .*vf-train.* (-R .*)\n/.exec(stderr);
    expect(printed?.[1]).toMatch(/mine\.ts$/);
    writeFileSync(path, text('right'));
    const resumed = await folder.start(printed![2]!.split(' '), ALONE).ended;
    expect([resumed.code, resumed.stderr]).toEqual([0, resumed.stderr]);
    expect(JSON.parse(resumed.stdout)).toMatchObject({ reason: 'finished', step: 3 });
  });
});

describe('an ablation of which one arm has a module that fails in a step', { timeout: 300_000 }, () => {
  it('continues by the printed command once the module is corrected, and keeps the reason while it is refused', async () => {
    const path = join(folder.path, 'mine.ts');
    const text = (advantage: string) =>
      `export const createCredit = ({ bad }) => ({ assign: ({ step, groups }) => ({ advantages: groups.map((group) => group.map((_, i) => ${advantage})) }) });\n`;
    const arms = '[[ablation]]\nname = "arms"\n[ablation.sweep]\n"algorithm.advantage.args" = [{ bad = false }, { bad = true }]\n';
    writeFileSync(join(folder.path, 'arms.toml'), arms);
    writeFileSync(path, text('bad && step > 1 ? NaN : i - 1.5'));
    const words = ['arms.toml', ...WORDS.slice(1), '--set', 'environment.id=./toy.ts', '--set', 'algorithm.advantage.use=./mine.ts'];
    const record = () => {
      const parent = join(folder.path, 'train/ablations');
      return JSON.parse(readFileSync(join(parent, readdirSync(parent)[0]!, 'ablation.json'), 'utf8')) as {
        runs: { state: string; reason: string }[];
      };
    };
    const printed = (stderr: string) => / continue the others with .*vf-train\S* (arms\.toml .*)\n/.exec(stderr)![1]!;
    const first = await folder.start(words, ALONE).ended;
    expect([first.code, first.stderr]).toEqual([1, expect.stringMatching(/finished runs are kept; correct \S*mine\.ts, then continue /)]);
    const stopped = record().runs[1]!;
    expect(stopped).toMatchObject({ state: 'stopped', reason: expect.stringMatching(/must be finite, got NaN/) });
    writeFileSync(path, text('i - 1.5'));
    const refused = await folder.start([...words, '-R'], ALONE).ended;
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/mine\.ts changed.*add --allow-changes/)]);
    expect(record().runs[1]).toEqual(stopped);
    expect(printed(refused.stderr)).toBe(printed(first.stderr));
    const resumed = await folder.start(printed(first.stderr).split(' '), ALONE).ended;
    expect([resumed.code, resumed.stderr]).toEqual([0, resumed.stderr]);
    expect(record().runs.map(({ state }) => state)).toEqual(['finished', 'finished']);
  });
});
