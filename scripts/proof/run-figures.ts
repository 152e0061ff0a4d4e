/** Figures of proven runs, from their metrics, and the verdicts that several proofs share. */
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import type { Verdict } from './results-page.ts';
import type { ProvenRun } from './train-once.ts';

export interface HeldOut {
  readonly step: number;
  readonly reward: number;
}

export function heldOut(rows: readonly MetricsRow[]): HeldOut[] {
  return rows.flatMap(({ kind, step, values }) => (kind === 'evaluation' ? [{ step, reward: values['reward_mean'] ?? NaN }] : []));
}

/** A quantity before the first step and after the last; NaN if it was not measured. */
export function beforeAndAfter({ rows }: Pick<ProvenRun, 'rows'>, metric: string): readonly [before: number, after: number] {
  const values = rows.filter(({ kind }) => kind === 'evaluation').map(({ values: of }) => of[metric] ?? NaN);
  return [values[0] ?? NaN, values.at(-1) ?? NaN];
}

export function stepsOf({ rows }: Pick<ProvenRun, 'rows'>): number {
  return Math.max(0, ...rows.map(({ step }) => step));
}

/** The largest value of a step; -Infinity if no step has it. */
export function worst(rows: readonly MetricsRow[], name: string): number {
  return Math.max(...rows.flatMap(({ kind, values }) => (kind === 'step' ? (values[name] ?? []) : [])));
}

/** Median over the steps of a part's share of the step's time. */
export function share(rows: readonly MetricsRow[], name: string): number {
  const shares = rows.flatMap(({ kind, values }) => (kind === 'step' ? [(values[name] ?? NaN) / (values['step_seconds'] ?? NaN)] : []));
  return shares.toSorted((a, b) => a - b)[Math.floor(shares.length / 2)]!;
}

/**
 * The held-out reward must start at or below one bar, or above it by no more than chance explains (the lower end of its 95 % interval), and reach the other; a control's must
 * fall. A vLLM draws other samples each time: of three runs of 240 rollouts from the same base one began at .171, one at .200 and one at .308.
 */
export function judgeReward({ label, isControl, rows }: ProvenRun, bars: { readonly start: number; readonly end: number }): Verdict {
  const held = heldOut(rows);
  const [first, last] = [held[0]!, held.at(-1)!];
  const least = beforeAndAfter({ rows }, 'reward_low')[0];
  const startsLow = first.reward <= bars.start || least <= bars.start;
  const moved = `${label}: held-out reward ${first.reward.toFixed(3)} → ${last.reward.toFixed(3)} in ${last.step} steps`;
  if (isControl) return { ok: last.reward < first.reward, text: `${moved}; must not rise` };
  return { ok: startsLow && last.reward >= bars.end, text: `${moved}; from at most ${bars.start} to at least ${bars.end}` };
}

/** If one process samples and trains, every token must have the same log-prob in both. */
export function judgeEqual({ label, rows }: Pick<ProvenRun, 'label' | 'rows'>): Verdict {
  const difference = worst(rows, 'log_prob_difference_max');
  return { ok: difference === 0, text: `${label}: largest |Δ log-prob| of a token, trainer to sampler, ${difference}; must be 0` };
}

/** The record of a run in the JSON of a page. */
export interface RunRecord {
  readonly label: string;
  readonly seconds: number;
  readonly cpu_seconds: number | null;
  readonly peak_memory_bytes: number | null;
  readonly steps: number;
  /** Metrics of the evaluations, without `rubric/`. */
  readonly held_out: readonly Readonly<Record<string, number | null>>[];
  readonly batch_reward: readonly { readonly step: number; readonly reward_mean: number | null }[];
  readonly log_prob_difference_mean: number;
  readonly log_prob_difference_max: number;
}

/** @param metrics metrics of the evaluations, beyond the reward. */
export function runRecord(run: ProvenRun, metrics: readonly string[] = []): RunRecord {
  const { label, seconds, cpuSeconds, peakMemoryBytes, rows } = run;
  const kept = ['reward_mean', ...metrics];
  return {
    label,
    seconds: Number(seconds.toFixed(1)),
    cpu_seconds: cpuSeconds,
    peak_memory_bytes: peakMemoryBytes,
    steps: stepsOf(run),
    held_out: rows.flatMap(({ kind, step, values }) =>
      kind === 'evaluation' ? [{ step, ...Object.fromEntries(kept.map((name) => [name.replace('rubric/', ''), values[name] ?? null])) }] : [],
    ),
    batch_reward: rows.flatMap(({ kind, step, values }) => (kind === 'step' ? [{ step, reward_mean: values['reward_mean'] ?? null }] : [])),
    log_prob_difference_mean: worst(rows, 'log_prob_difference_mean'),
    log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
  };
}
