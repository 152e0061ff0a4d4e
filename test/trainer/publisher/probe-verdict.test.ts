import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { difference, PROBED_TOKENS, tellingTokens } from '../../../src/trainer/publisher/log-prob-probe.ts';
import { judgeApplication, type ProbeVerdict } from '../../../src/trainer/publisher/adapter-loader.ts';

/** Tokens that the trainer forwards to choose from. */
const CONSIDERED = 256;

interface Case {
  /** Mean |Δ log-prob| that the adapter makes, in nats. */
  readonly effect: number;
  /** Standard deviation of every reading of a log-prob, in nats. */
  readonly noise: number;
  readonly isApplied: boolean;
  /** How effects are distributed over tokens. @default exponential, as an adapter moves few tokens much */
  readonly spread?: 'exponential' | 'equal';
  /** How far the noise of tokens differs: the standard deviation of its logarithm. @default 0 */
  readonly unevenness?: number;
}

/** What the probe finds in one simulated publish, tokens chosen as in production. */
function simulate({ effect, noise, isApplied, spread = 'exponential', unevenness = 0 }: Case, random: Random, tolerance = 0.05): ProbeVerdict {
  const all = Array.from({ length: CONSIDERED }, () => {
    const size = spread === 'equal' ? effect : -effect * Math.log(1 - random.float());
    const own = random.float() < 0.5 ? size : -size;
    const scale = noise * Math.exp(unevenness * normal(random));
    const read = (value: number) => -3 + value + scale * normal(random);
    return { trained: read(own), trainedBase: read(0), servedBase: read(0), served: read(isApplied ? own : 0) };
  });
  const pick = (name: keyof (typeof all)[0], chosen: readonly number[]) => chosen.map((i) => all[i]![name]);
  const chosen = tellingTokens(
    all.map(({ trained }) => trained),
    all.map(({ trainedBase }) => trainedBase),
  );
  expect(chosen).toHaveLength(PROBED_TOKENS);
  const [served, servedBase, trained, trainedBase] = [
    pick('served', chosen),
    pick('servedBase', chosen),
    pick('trained', chosen),
    pick('trainedBase', chosen),
  ] as const;
  return judgeApplication({ served, servedBase, trained, trainedBase, tolerance });
}

/** Share of publishes that the probe refuses. */
function refused(tried: Case, runs = 2000, tolerance = 0.05): number {
  const random = Random.fromSeed(7);
  return Array.from({ length: runs }, () => simulate(tried, random, tolerance)).filter(({ kind }) => kind === 'not_applied').length / runs;
}

describe('judgeApplication', () => {
  it('tells an effect of eight times the noise from none', () => {
    expect(refused({ effect: 0.04, noise: 0.005, isApplied: false }, 200)).toBe(1);
    expect(refused({ effect: 0.04, noise: 0.005, isApplied: true }, 200)).toBe(0);
  });

  it.each([0.03, 0.04, 0.05])(
    'passes no adapter that is not applied, in bfloat16 with 0.005 nats of noise, at an effect of %d nats',
    { tags: 'long' },
    (effect) => {
      for (const spread of ['exponential', 'equal'] as const)
        expect(1 - refused({ effect, noise: 0.005, isApplied: false, spread })).toBeLessThanOrEqual(0.001);
    },
  );

  it('passes under 2 in 100 where the noise of tokens differs by a factor of 2', { tags: 'long' }, () => {
    expect(1 - refused({ effect: 0.03, noise: 0.005, isApplied: false, unevenness: 0.7 })).toBeLessThan(0.02);
    expect(1 - refused({ effect: 0.05, noise: 0.005, isApplied: false, unevenness: 0.7 })).toBeLessThan(0.002);
  });

  it.each([0, 1e-4, 1e-3, 0.003, 0.005, 0.01, 0.02, 0.03, 0.1])(
    'refuses no adapter that is applied, with an effect of %d nats',
    { tags: 'long' },
    (effect) => {
      for (const spread of ['exponential', 'equal'] as const) expect(refused({ effect, noise: 0.005, isApplied: true, spread })).toBe(0);
      expect(refused({ effect, noise: 0.005, isApplied: true, unevenness: 0.7 })).toBeLessThanOrEqual(0.003);
    },
  );

  it('tells far smaller effects in float32, where the noise is small', () => {
    expect(refused({ effect: 3e-4, noise: 1e-6, isApplied: false }, 300, 1e-3)).toBe(1);
    expect(refused({ effect: 3e-4, noise: 1e-6, isApplied: true }, 300, 1e-3)).toBe(0);
    expect(refused({ effect: 1e-6, noise: 1e-7, isApplied: false }, 300, 1e-3)).toBe(0);
  });

  it('is what the rule before was not: that passed whatever moved at all', () => {
    const random = Random.fromSeed(3);
    const moves = Array.from({ length: 100 }, () => difference([normal(random) * 0.005], [0]).max > 0);
    expect(moves).not.toContain(false);
  });

  it('refuses what shows a small share of the effect, and says how much', () => {
    const trainedBase = Array.from({ length: 32 }, (_, i) => -1 - i / 10);
    const effects = trainedBase.map((_, i) => (i % 2 === 0 ? 0.04 : -0.02));
    const at = (share: number) =>
      judgeApplication({
        trainedBase,
        servedBase: trainedBase,
        trained: trainedBase.map((value, i) => value + effects[i]!),
        served: trainedBase.map((value, i) => value + share * effects[i]!),
        tolerance: 0.05,
      });
    expect(at(0.2)).toMatchObject({ kind: 'not_applied', share: expect.closeTo(0.2) as number });
    expect(at(0.8)).toMatchObject({ kind: 'applied', share: expect.closeTo(0.8) as number });
    expect(at(-1)).toMatchObject({ kind: 'not_applied' });
  });

  it('finds nothing out about an adapter that changes nothing', () => {
    const same = [-1, -2, -3];
    expect(judgeApplication({ served: same, servedBase: same, trained: same, trainedBase: same, tolerance: 0.05 })).toMatchObject({
      kind: 'unclear',
    });
  });
});

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.float())) * Math.cos(2 * Math.PI * random.float());
}
