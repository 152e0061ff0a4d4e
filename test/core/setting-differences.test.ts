import { describe, expect, it } from 'vitest';
import { differingSettings, runLabels, seedlessSettings, settingLabels } from '../../src/core/setting-differences.ts';

const training = (changes: { readonly lr?: number; readonly seed?: number; readonly [key: string]: unknown } = {}) => {
  const { lr = 1e-4, seed = 0, ...rest } = changes;
  return { name: 'run', seed, steps: 10, output_dir: `outputs-${seed}`, optimizer: { learning_rate: lr, beta2: 0.95 }, lora: { rank: 16 }, ...rest };
};

describe('settingLabels', () => {
  it('names each setting that differs by its shortest end, the seed last, and no setting that changes no result', () => {
    expect(settingLabels([training(), training({ lr: 5e-4, seed: 2 }), training({ lora: { rank: 8 } })])).toEqual([
      'lr 1e-4, rank 16, seed 0',
      'lr 5e-4, rank 16, seed 2',
      'lr 1e-4, rank 8, seed 0',
    ]);
  });

  it('says what only one run sets, and counts settings beyond four', () => {
    expect(settingLabels([training(), training({ environment: { args: { topk: 3 } } })])).toEqual(['topk unset', 'topk 3']);
    const many = Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((key) => [key, true]));
    expect(settingLabels([{}, many])[1]).toBe('a true, b true, c true, d true, and 2 more');
  });

  it('keeps more of a key where its end names two settings, and says the same thing once', () => {
    const of = (topk: number) => ({ env_args: { topk }, environment: { arguments: { topk } } });
    expect(settingLabels([of(1), of(3)])).toEqual(['topk 1', 'topk 3']);
    expect(
      settingLabels([
        { a: { x: 1 }, b: { x: 1 } },
        { a: { x: 2 }, b: { x: 3 } },
      ]),
    ).toEqual(['a.x 1, b.x 1', 'a.x 2, b.x 3']);
  });

  it('tells long values apart by their ends where their beginnings are alike', () => {
    const path = (end: string) => ({ loss: `${'x'.repeat(30)}/${end}` });
    expect(settingLabels([path('a.ts'), path('b.ts')])).toEqual([`loss …${'x'.repeat(18)}/a.ts`, `loss …${'x'.repeat(18)}/b.ts`]);
  });

  it('names two settings that change alike, unless they are the argument of an environment', () => {
    const of = (rate: number) => ({ optimizer: { learning_rate: rate }, sft: { learning_rate: rate } });
    expect(settingLabels([of(1), of(2)])).toEqual([
      'optimizer.learning_rate 1, sft.learning_rate 1',
      'optimizer.learning_rate 2, sft.learning_rate 2',
    ]);
  });

  it('takes a prototype key for a key, and cuts a long value', () => {
    const hostile = JSON.parse('{"__proto__": {"polluted": "yes"}, "constructor": 1}') as Record<string, unknown>;
    expect(differingSettings([{}, hostile]).map(({ key }) => key)).toEqual(['__proto__.polluted', 'constructor']);
    expect(settingLabels([{ a: 'x'.repeat(100) }, { a: 'y' }])[0]).toBe(`a ${'x'.repeat(23)}…`);
  });
});

describe('runLabels', () => {
  const named = (name: string | null, changes = {}) => ({ name, settings: training(changes) });

  it('is the name where only one run has it, else the settings that differ as well', () => {
    expect(runLabels([named('warm'), named('cold', { lr: 1 })])).toEqual(['warm', 'cold']);
    expect(runLabels([named('run'), named('run', { lr: 1 }), named('cold')])).toEqual(['run (lr 1e-4)', 'run (lr 1)', 'cold']);
    expect(runLabels([named(null), named(null, { seed: 1 })])).toEqual(['seed 0', 'seed 1']);
    expect(runLabels([named('run'), named('run'), named(null)])).toEqual(['run', 'run', '']);
    expect(runLabels([named('warm', { steps: 5 }), named(null, { lr: 1 })])).toEqual(['warm', 'steps 10, lr 1']);
    // What tells them from runs of other names does not tell them from each other.
    expect(runLabels([named('warm', { steps: 5 }), named('run'), named('run', { seed: 1 })])).toEqual(['warm', 'run (seed 0)', 'run (seed 1)']);
  });
});

describe('seedlessSettings', () => {
  it('is equal for runs that differ in seed, name and place alone', () => {
    expect(seedlessSettings(training({ seed: 4, name: 'x' }))).toBe(seedlessSettings(training()));
    expect(seedlessSettings(training({ lr: 1 }))).not.toBe(seedlessSettings(training()));
  });
});
