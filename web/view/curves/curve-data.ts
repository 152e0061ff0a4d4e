/** Turns lines of metrics into curves: one by kind of line (training steps, evaluations, validations), all over the same steps. */
import { ownValue } from '../text/own-value.ts';
import type { MetricLine } from './metric-lines.ts';

export type CurveKind = MetricLine['kind'];

export interface Curve {
  readonly kind: CurveKind;
  /** Values by step of `CurveData.steps`. */
  readonly values: readonly (number | null)[];
  /** Ends of the interval, if the run has measured one. */
  readonly bounds: readonly (readonly [number, number] | null)[] | null;
}

export interface CurveData {
  readonly steps: readonly number[];
  readonly curves: readonly Curve[];
}

const KINDS: readonly CurveKind[] = ['step', 'evaluation', 'validation'];

/** Metrics that show the variation of another one; they are drawn with it. */
const BOUNDS: Readonly<Record<string, readonly [string, string]>> = { reward_mean: ['reward_low', 'reward_high'] };

export function curveData(lines: readonly MetricLine[], metric: string): CurveData {
  const byKind = new Map<CurveKind, Map<number, MetricLine>>();
  const steps = new Set<number>();
  for (const line of lines) {
    if (numberIn(line, metric) === null) continue;
    steps.add(line.step);
    const found = byKind.get(line.kind) ?? new Map<number, MetricLine>();
    // A resumed run measures steps again; the later line counts.
    found.set(line.step, line);
    byKind.set(line.kind, found);
  }
  const ordered = [...steps].toSorted((a, b) => a - b);
  const curves = KINDS.flatMap((kind): Curve[] => {
    const found = byKind.get(kind);
    if (found === undefined) return [];
    const bounds = ownValue(BOUNDS, metric);
    return [
      {
        kind,
        values: ordered.map((step) => numberIn(found.get(step), metric)),
        bounds: bounds === undefined ? null : ordered.map((step) => boundsIn(found.get(step), bounds)),
      },
    ];
  });
  return { steps: ordered, curves };
}

/** Mean over the steps so far in which later ones count more; values that were not measured stay so. @param weight The weight of earlier values, 0 to below 1. */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value;
    weights = weights * weight + 1;
    return sum / weights;
  });
}

/** The last index up to this one that has a value. */
export function lastAt(values: readonly (number | null)[], index: number): number {
  for (let i = index; i >= 0; i--) if (values[i] !== null) return i;
  return index;
}

/** Names of metrics that have a number in some line, as the file first names them. */
export function metricNames(lines: readonly MetricLine[]): string[] {
  const names = new Set<string>();
  for (const { values } of lines) for (const [name, value] of Object.entries(values)) if (value !== null) names.add(name);
  const bounds = new Set(Object.values(BOUNDS).flat());
  return [...names].filter((name) => !bounds.has(name));
}

/** The metrics by which a run is judged, in the order in which people look at them. */
const FIRST = [
  'reward_mean',
  'validation_loss',
  'kl',
  'teacher_kl',
  'approx_kl',
  'entropy',
  'tokens_per_rollout',
  'rubric/searches',
  'turns_mean',
  'loss',
  'grad_norm',
  'group_reward_std',
  'groups_constant',
  'clip_fraction',
  'truncated',
  'step_seconds',
];

/** Metrics that a source or a credit of the user's own defines. */
const OWN = /^(?:source|credit)\//;

/** @param count The greatest number of names. */
export function firstMetrics(names: readonly string[], count = 12): string[] {
  const judged = FIRST.filter((name) => names.includes(name));
  const known = judged.length === 0 ? [] : [judged[0]!, ...names.filter((name) => OWN.test(name)), ...judged.slice(1)];
  return known.length > 0 ? known.slice(0, count) : names.slice(0, count);
}

function numberIn(line: MetricLine | undefined, metric: string): number | null {
  const value = (line === undefined ? undefined : ownValue(line.values, metric)) ?? null;
  return value !== null && Number.isFinite(value) ? value : null;
}

function boundsIn(line: MetricLine | undefined, [low, high]: readonly [string, string]): readonly [number, number] | null {
  const ends = [numberIn(line, low), numberIn(line, high)] as const;
  return ends[0] === null || ends[1] === null ? null : [ends[0], ends[1]];
}
