import { describe, expect, it } from 'vitest';
import type { RunLine } from '../../../../src/viewing/view-wire.ts';
import type { MetricLine } from '../../../../web/view/curves/metric-lines.ts';
import {
  hasSeeds,
  heldOutFigures,
  scaleProblems,
  overlaidCurves,
  overlaidGroups,
  type OverlaidRun,
} from '../../../../web/view/overlay/overlay-data.ts';

const evaluation = (step: number, reward: number): MetricLine => ({
  kind: 'evaluation',
  step,
  time: '',
  values: { reward_mean: reward, reward_low: reward - 0.1, reward_high: reward + 0.1, rollouts: 10 },
});
const step = (at: number, values: Readonly<Record<string, number>>): MetricLine => ({ kind: 'step', step: at, time: '', values });

interface Made {
  readonly name?: string | null;
  readonly seed?: number;
  readonly lr?: number;
  readonly lines?: readonly MetricLine[] | null;
  readonly settings?: Readonly<Record<string, unknown>>;
}

function run(
  id: string,
  { name = null, seed = 0, lr = 1, lines = [], settings = { seed, optimizer: { learning_rate: lr } } }: Made = {},
): OverlaidRun {
  const line = { id, name, kind: 'training', state: 'complete' } as RunLine;
  return { line, metrics: { lines, settings, meanings: {}, older: 0, state: 'complete', error: null } };
}

describe('overlaidGroups', () => {
  it('joins runs that differ in their seed alone, and names groups by what differs', () => {
    const runs = [run('t/a', { seed: 1 }), run('t/b', { lr: 2 }), run('t/c', { seed: 3 })];
    expect(hasSeeds(runs)).toBe(true);
    expect(overlaidGroups(runs, true).map(({ key, label, runs: of }) => [key, label, of.length])).toEqual([
      ['t/a', 'lr 1, 2 seeds', 2],
      ['t/b', 'lr 2', 1],
    ]);
    expect(overlaidGroups(runs, false).map(({ label }) => label)).toEqual(['lr 1, seed 1', 'lr 2, seed 0', 'lr 1, seed 3']);
  });

  it('never joins runs whose settings are unknown, and tells equal ones apart by their folders', () => {
    const runs = [run('t/a', { settings: {} }), run('t/b', { settings: {} }), run('t/c', { name: 'x' }), run('t/d', { name: 'x' })];
    expect(overlaidGroups(runs, false).map(({ label }) => label)).toEqual(['a', 'b', 'x c', 'x d']);
    expect(overlaidGroups(runs, true).map(({ label }) => label)).toEqual(['a', 'b', 'x, 2 seeds']);
  });
});

describe('overlaidCurves', () => {
  it('has the steps of all runs, each curve with its own interval', () => {
    const groups = overlaidGroups(
      [run('a', { lines: [evaluation(0, 0.2), evaluation(4, 0.4)] }), run('b', { lr: 2, lines: [evaluation(2, 0.5)] })],
      true,
    );
    const { steps, curves } = overlaidCurves(groups, 'reward_mean', ['step', 'evaluation']);
    expect(steps).toEqual([0, 2, 4]);
    expect(curves.map(({ group, values, isJoint }) => [group, values, isJoint])).toEqual([
      [0, [0.2, null, 0.4], false],
      [1, [null, 0.5, null], false],
    ]);
    expect(curves[1]!.bounds).toEqual([null, [0.4, 0.6], null]);
  });

  it('means over seeds only where each of them has a value, from the lowest to the highest; a missing metric is not a zero', () => {
    const members = [1, 2, 3].map((seed) =>
      run(`r${seed}`, { seed, lines: [step(1, { kl: seed, reward_mean: 0 }), ...(seed < 3 ? [step(2, { kl: 9, reward_mean: 0 })] : [])] }),
    );
    const without = run('other', { lr: 2, lines: [step(1, { reward_mean: 0 })] });
    const { curves } = overlaidCurves(overlaidGroups([...members, without], true), 'kl', ['step', 'evaluation', 'validation']);
    expect(curves).toEqual([{ group: 0, kind: 'step', isJoint: true, values: [2, null], bounds: [[1, 3], null] }]);
  });
});

describe('heldOutFigures', () => {
  it('has the last and the best of a run with the interval over rows, and of seeds the mean with the interval over seeds', () => {
    const lines = (first: number, last: number) => [evaluation(0, first), evaluation(5, last)];
    const [one] = overlaidGroups([run('a', { lines: lines(0.7, 0.6) })], true);
    const figures = heldOutFigures(one!);
    expect(figures.last).toMatchObject({ estimate: { value: 0.6, low: 0.5, n: 10 }, steps: [5] });
    expect(figures.start).toMatchObject({ estimate: { value: 0.7 }, steps: [0] });
    expect(figures).toMatchObject({ best: { estimate: { value: 0.6 }, steps: [5] }, isStartBest: true });
    const [seeds] = overlaidGroups([run('a', { lines: lines(0, 0.4) }), run('b', { seed: 1, lines: lines(0, 0.6) })], true);
    const { estimate } = heldOutFigures(seeds!).last!;
    // Student's t with one degree of freedom: 12.706 × 0.1, as in vf-compare.
    expect(estimate.value).toBeCloseTo(0.5, 12);
    expect([estimate.low, estimate.n]).toEqual([expect.closeTo(0.5 - 12.7062 * 0.1, 3), 2]);
    expect(estimate.high).toBeCloseTo(0.5 + 12.7062 * 0.1, 3);
  });

  it('is null where a run was never evaluated', () => {
    const [seeds] = overlaidGroups([run('a', { lines: [evaluation(0, 1)] }), run('b', { seed: 1 })], true);
    expect(heldOutFigures(seeds!)).toEqual({ start: null, last: null, best: null, isStartBest: false });
  });
});

describe('scaleProblems', () => {
  const letters = (group: number) => 'ABC'[group]!;
  const of = (environment: object, examples?: number) => ({
    settings: { environment, seed: 0, ...(examples === undefined ? {} : { evaluation: { examples } }) },
  });

  it.each([
    [
      'environments',
      of({ id: 'x' }),
      of({ id: 'y' }),
      /^A is evaluated on x and C on y, and rewards of different environments have different scales$/,
    ],
    ['data sets', of({ id: 'x' }), of({ id: 'x', args: { dataset: 'd' } }), /^A is evaluated on its default data set and C on the data set "d"$/],
    [
      'versions of an environment',
      of({ id: './x.ts', version: 'x.ts 0cee2717' }),
      of({ id: './x.ts', version: 'x.ts 5d41402a' }),
      /^A and C were scored by different versions of their environment \(x\.ts changed\)/,
    ],
    ['numbers of rows', of({ id: 'x' }, 16), of({ id: 'x' }, 240), /^A is evaluated on 16 held-out rows and C on 240 held-out rows/],
  ])('names other %s, and none of a run that is still read', (_, first, other, text) => {
    const groups = overlaidGroups([run('a', first), run('b', { settings: {} }), run('c', other)], false);
    expect(scaleProblems(groups, letters)).toEqual([expect.stringMatching(text)]);
    expect(scaleProblems(groups.slice(0, 2), letters)).toEqual([]);
  });
});
