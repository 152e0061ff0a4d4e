/** Lays trainings over each other: runs that differ in their seed alone form one group, whose curves are drawn as one, or as many. Pure. */
import { runLabels, seedlessSettings } from '../../../src/core/setting-differences.ts';
import { rowsProblem, scaleProblem } from '../../../src/core/reward-scale.ts';
import { estimateOverSeeds } from '../../../src/core/seed-statistics.ts';
import type { Estimate, RunLine } from '../../../src/viewing/view-wire.ts';
import { type Curve, curveData, type CurveKind } from '../curves/curve-data.ts';
import type { MetricLine, Metrics } from '../curves/metric-lines.ts';

export interface OverlaidRun {
  readonly line: RunLine;
  readonly metrics: Metrics;
}

/** One curve of each kind: of a run, or of several that differ in their seed alone. */
export interface OverlaidGroup {
  /** Tells it from the others in the address. */
  readonly key: string;
  readonly label: string;
  readonly runs: readonly OverlaidRun[];
}

/** In the order of the runs. @param isJoined runs that differ in their seed alone are one group */
export function overlaidGroups(runs: readonly OverlaidRun[], isJoined: boolean): OverlaidGroup[] {
  const groups = [...Map.groupBy(runs, (run) => (isJoined ? configurationOf(run) : run.line.id)).values()];
  const labels = runLabels(
    groups.map((members) => {
      const [first] = members;
      const isShared = members.every(({ line }) => line.name === first!.line.name);
      const { seed, ...settings } = first!.metrics.settings;
      return { name: isShared ? first!.line.name : null, settings: isJoined ? settings : { ...settings, seed } };
    }),
  );
  return groups.map((members, i) => {
    const { id } = members[0]!.line;
    // Nothing else tells these apart.
    const isAlone = labels[i] !== '' && labels.every((label, j) => j === i || label !== labels[i]);
    const label = isAlone ? labels[i]! : [labels[i], endOf(id)].filter((part) => part !== '').join(' ');
    return { key: id, label: members.length > 1 ? `${label}, ${members.length} seeds` : label, runs: members };
  });
}

/** True if some of the runs differ in their seed alone. */
export function hasSeeds(runs: readonly OverlaidRun[]): boolean {
  return new Set(runs.map(configurationOf)).size < runs.length;
}

/** A run whose settings are unknown is like no other. */
function configurationOf({ line, metrics: { settings } }: OverlaidRun): string {
  return Object.keys(settings).length === 0 ? `the run ${line.id}` : seedlessSettings(settings);
}

function endOf(id: string): string {
  return id.split('/').at(-1)!;
}

interface OverlaidCurve extends Curve {
  /** Its place among the groups. */
  readonly group: number;
  /** The bounds are those of several runs. */
  readonly isJoint: boolean;
}

export interface OverlaidCurves {
  readonly steps: readonly number[];
  readonly curves: readonly OverlaidCurve[];
}

/** The curves of a metric over all steps, training first. Those of several seeds are their mean, from the lowest to the highest, at steps that each of them has. */
export function overlaidCurves(groups: readonly OverlaidGroup[], metric: string, kinds: readonly CurveKind[]): OverlaidCurves {
  const data = groups.map(({ runs }) => runs.map(({ metrics }) => curveData(metrics.lines ?? [], metric)));
  const steps = [...new Set(data.flat().flatMap((one) => one.steps))].toSorted((a, b) => a - b);
  const curves = kinds.flatMap((kind) =>
    data.flatMap((members, group): OverlaidCurve[] => {
      const found = members.flatMap((member) => {
        const curve = member.curves.find((one) => one.kind === kind);
        return curve === undefined ? [] : [placed(curve, member.steps, steps)];
      });
      const [only] = found;
      if (only === undefined) return [];
      return [found.length === 1 ? { ...only, group, isJoint: false } : { ...joint(found, kind), group, isJoint: true }];
    }),
  );
  return { steps, curves };
}

function placed({ kind, values, bounds }: Curve, own: readonly number[], steps: readonly number[]): Curve {
  const at = new Map(own.map((step, i) => [step, i]));
  const of = <T>(list: readonly T[]) => steps.map((step) => list[at.get(step) ?? -1] ?? null);
  return { kind, values: of(values), bounds: bounds === null ? null : of(bounds) };
}

function joint(members: readonly Curve[], kind: CurveKind): Curve {
  const together = members[0]!.values.map((_, i) => members.flatMap(({ values }) => values[i] ?? []));
  const whole = together.map((values) => (values.length === members.length ? values : null));
  return {
    kind,
    values: whole.map((values) => (values === null ? null : meanOf(values))),
    bounds: whole.map((values) => (values === null ? null : [Math.min(...values), Math.max(...values)])),
  };
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** A held-out reward, and the steps at which the runs had it. */
export interface HeldOutFigure {
  readonly estimate: Estimate;
  readonly steps: readonly number[];
  readonly runs: number;
}

export interface HeldOutFigures {
  /** Before the first step. */
  readonly start: HeldOutFigure | null;
  /** Of trained versions, so after the start. */
  readonly last: HeldOutFigure | null;
  readonly best: HeldOutFigure | null;
  /** True if every run was evaluated at its start, and none was higher later. */
  readonly isStartBest: boolean;
}

/** Held-out rewards of a run with the interval over its rows; of several seeds the mean over them, with its interval over them. Null if one has none. */
export function heldOutFigures({ runs }: OverlaidGroup): HeldOutFigures {
  const measured = runs.map(({ metrics }) => {
    const rewards = rewardsOf(metrics.lines ?? []);
    const trained = rewards.filter(({ step }) => step > 0);
    return { start: rewards.find(({ step }) => step === 0), last: trained.at(-1), best: highest(trained) };
  });
  const isStartBest = measured.every(({ start, best }) => start !== undefined && best !== undefined && best.value <= start.value);
  const of = (which: 'start' | 'last' | 'best') => overRuns(measured.map((figures) => figures[which]));
  return { start: of('start'), last: of('last'), best: of('best'), isStartBest };
}

function highest(rewards: readonly Reward[]): Reward | undefined {
  return rewards.reduce<Reward | undefined>((best, one) => (best !== undefined && best.value >= one.value ? best : one), undefined);
}

/** Why rewards of the groups cannot be compared: they have other environments, data sets or numbers of held-out rows than the first. */
export function scaleProblems(groups: readonly OverlaidGroup[], nameOf: (group: number) => string): string[] {
  // Those of a run that is still being read are unknown.
  const known = groups.flatMap(({ runs }, i): Scaled[] => {
    const config = runs.map((run) => run.metrics.settings).find((settings) => Object.keys(settings).length > 0);
    return config === undefined ? [] : [{ name: nameOf(i), config }];
  });
  return known.slice(1).flatMap((b) => {
    const a = known[0]!;
    const problem = scaleProblem(a, b);
    if (problem !== null) return [problem];
    const rows = rowsProblem(a, b);
    return rows === null ? [] : [rows];
  });
}

type Scaled = Parameters<typeof scaleProblem>[0];

interface Reward extends Estimate {
  readonly step: number;
}

/** By step; the later line of a step counts. */
function rewardsOf(lines: readonly MetricLine[]): Reward[] {
  const rewards = new Map<number, Reward>();
  for (const { kind, step, values } of lines) {
    const { reward_mean: value, reward_low: low = null, reward_high: high = null, rollouts } = values;
    if (kind === 'evaluation' && typeof value === 'number') rewards.set(step, { step, value, low, high, n: rollouts ?? 0 });
  }
  return [...rewards.values()].toSorted((a, b) => a.step - b.step);
}

function overRuns(rewards: readonly (Reward | undefined)[]): HeldOutFigure | null {
  const known = rewards.filter((reward) => reward !== undefined);
  if (known.length < rewards.length || known.length === 0) return null;
  const estimate = known.length === 1 ? known[0]! : estimateOverSeeds(known.map(({ value }) => value))!;
  return { estimate, steps: [...new Set(known.map(({ step }) => step))].toSorted((a, b) => a - b), runs: known.length };
}
