import { describe, expect, it } from 'vitest';
import { judgeSeedRun, type SeedRun } from '../../../scripts/proof/judge-seeds.ts';
import { settingLines } from '../../../scripts/proof/preset-settings.ts';
import { FACT_WORLD, SEED_PROOFS, type SeedProof } from '../../../scripts/proof/seed-proofs.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const proof: SeedProof = {
  environment: 'e',
  setting: 'a model, a world',
  steps: 3,
  quickSteps: 2,
  seconds: 40,
  quantities: [
    { metric: 'reward_mean', label: 'held-out reward', start: 1, end: 2.2, quickEnd: 1.4 },
    { metric: 'rubric/em', label: 'exact match', start: 0.3, end: 0.9, quickEnd: 0.4 },
  ],
  variants: [],
  worlds: [],
  world: FACT_WORLD,
  controlBelow: 0,
};

interface Measured {
  readonly reward?: readonly [number, number];
  readonly em?: readonly [number, number];
  readonly difference?: number;
  readonly steps?: number;
}

function run(
  kind: SeedRun['kind'],
  { reward = [0.8, 2.3], em = [0.2, 0.95], difference = 0, steps = 3 }: Measured = {},
  changes: Partial<SeedRun> = {},
): SeedRun {
  const row = (of: MetricsRow['kind'], step: number, values: Record<string, number>) => ({ kind: of, step, values }) as unknown as MetricsRow;
  const rows = [
    row('evaluation', 0, { reward_mean: reward[0], 'rubric/em': em[0] }),
    row('step', steps, { reward_mean: 1, log_prob_difference_max: difference }),
    row('evaluation', steps, { reward_mean: reward[1], 'rubric/em': em[1] }),
  ];
  const figures = { seconds: 20, cpuSeconds: 30, peakMemoryBytes: null, directory: '/nowhere', adapter: null };
  return { label: 'e, seed 0', isControl: kind === 'control', ...figures, rows, proof, kind, end: null, ...changes };
}

const failures = (judged: SeedRun, judgement = { quick: false, isStrict: false }) =>
  judgeSeedRun(judged, judgement).flatMap(({ ok, text }) => (ok ? [] : [text]));

describe('judgeSeedRun', () => {
  it('passes a run that reaches every bar', () => {
    expect(judgeSeedRun(run('laptop'), { quick: false, isStrict: true }).map(({ ok }) => ok)).toEqual([true, true, true, true, true]);
  });

  it.each([
    [{ reward: [1.1, 2.3] }, /held-out reward 1\.100 → 2\.300; from at most 1 to at least 2\.2/],
    [{ reward: [0.8, 2.1] }, /held-out reward 0\.800 → 2\.100/],
    [{ em: [0.2, 0.89] }, /exact match 0\.200 → 0\.890; from at most 0\.3 to at least 0\.9/],
    [{ em: [0.2, NaN] }, /exact match 0\.200 → NaN/],
    [{ difference: 1e-7 }, /\|Δ log-prob\| of a token, trainer to sampler, 1e-7; must be 0/],
    [{ steps: 4 }, /4 steps; at most 3$/],
  ] as [Measured, RegExp][])('fails one with %j', (measured, text) => {
    expect(failures(run('laptop', measured))).toEqual([expect.stringMatching(text)]);
  });

  it('counts the time only where it is asked to', () => {
    const slow = run('laptop', {}, { seconds: 41 });
    expect([failures(slow).length, failures(slow, { quick: false, isStrict: true }).length]).toEqual([0, 1]);
  });

  it('has lower bars for few steps', () => {
    const short = run('laptop', { reward: [0.8, 1.5], em: [0.2, 0.5], steps: 2 });
    expect([failures(short).length, failures(short, { quick: true, isStrict: false }).length]).toEqual([2, 0]);
  });

  it('judges a variant by its own bar, and the control by an end below 0', () => {
    expect(failures(run('variant', { reward: [1.2, 2.1] }, { end: 2 }))).toEqual([]);
    expect(failures(run('variant', { reward: [0.8, 1.9] }, { end: 2 }))).toHaveLength(1);
    expect(failures(run('control', { reward: [0.8, -0.1] }))).toEqual([]);
    expect(failures(run('control', { reward: [0.8, 0.1] }))).toHaveLength(1);
  });
});

describe('SEED_PROOFS', () => {
  it("lays the specification's algorithm over the laptop run of grpo-000", () => {
    const [own] = SEED_PROOFS.find(({ environment }) => environment === 'grpo-000')!.variants;
    expect(own!.settings).toEqual(
      expect.arrayContaining([
        'algorithm.epochs=4',
        'algorithm.advantage.std="population"',
        'algorithm.loss.aggregation="sequence_mean"',
        'algorithm.kl.coefficient=0.1',
        'algorithm.kl.against="old"',
        'optimizer.max_grad_norm=0.5',
        'rollouts.rollouts_per_example=2',
      ]),
    );
  });

  it('are for presets that exist, and name keys that they set', () => {
    expect(() => settingLines({ name: 'x', table: { steps: 1 } }, ['algorithm'])).toThrow('The preset x does not set algorithm.');
    expect(settingLines({ name: 'x', table: { steps: 1, lora: { rank: 8, targets: ['a'] } } }, ['lora', 'steps'])).toEqual([
      'lora.rank=8',
      'lora.targets=["a"]',
      'steps=1',
    ]);
  });
});
