/** The runs of `npm run prove self-play`, and the bar of each. */
import type { MetricsRow } from '../../src/trainer/training-observer.ts';
import type { ProofOptions } from './proof-options.ts';
import type { Verdict } from './results-page.ts';
import { beforeAndAfter, judgeEqual, stepsOf } from './run-figures.ts';
import type { ProvenRun } from './train-once.ts';

export const ACCURACY = 'rubric/accuracy';

/**
 * `laptop`: the preset as it is. `short`: with fewer steps, for the aim of a minute. `negated`: advantages with the other sign. `long`: more steps. `frozen`: as
 * `long`, with the proposals of the base in place of the policy's. `grammar`: with programs drawn from the grammar.
 */
export const SELF_PLAY_KINDS = ['laptop', 'short', 'negated', 'long', 'frozen', 'grammar'] as const;
export type SelfPlayKind = (typeof SELF_PLAY_KINDS)[number];

/** True for a run that omits a part of self-play. */
export function isControl(kind: SelfPlayKind): boolean {
  return kind === 'negated' || kind === 'frozen' || kind === 'grammar';
}

export interface SelfPlayRun extends ProvenRun {
  readonly kind: SelfPlayKind;
}

export const BARS = {
  start: [0.15, 0.35],
  rise: 0.3,
  quickRise: 0.05,
  aim: 0.85,
  minute: { accuracy: 0.6, seconds: 60 },
  steps: 60,
  seconds: 120,
  memoryBytes: 400e6,
  executionShare: 0.1,
  valid: [0.65, 0.9],
  growth: 2,
  distinct: 0.9,
  learnability: 0.2,
} as const;

/** Steps whose mean is compared. */
const [FIRST, LAST] = [3, 10];

/** Mean of a metric over the first steps and over the last ones; NaN if it was not measured. */
export function ends(rows: readonly MetricsRow[], name: string): readonly [first: number, last: number] {
  const values = rows.flatMap(({ kind, values: of }) => (kind === 'step' && typeof of[name] === 'number' ? [of[name]] : []));
  const mean = (some: readonly number[]) => some.reduce((sum, value) => sum + value, 0) / some.length;
  return [mean(values.slice(0, FIRST)), mean(values.slice(-LAST))];
}

/** CPU time of executing programs, as a share of that of the whole command. */
export function executionShare({ rows, cpuSeconds }: Pick<ProvenRun, 'rows' | 'cpuSeconds'>): number {
  return rows.reduce((sum, { kind, values }) => sum + (kind === 'step' ? (values['source/execution_seconds'] ?? 0) : 0), 0) / (cpuSeconds ?? NaN);
}

export function judgeSelfPlay(run: SelfPlayRun, { quick, isStrict }: Pick<ProofOptions, 'quick' | 'isStrict'>): Verdict[] {
  const { label, kind } = run;
  const equal = judgeEqual(run);
  const [before, after] = beforeAndAfter(run, ACCURACY);
  const moved = `${label}: held-out accuracy ${before.toFixed(3)} → ${after.toFixed(3)}`;
  if (kind === 'negated') return [{ ok: after < before, text: `${moved}; must end below its start` }, equal];
  if (kind === 'short') return [...(isStrict ? [judgeMinute(run)] : []), equal];
  if (kind !== 'laptop') return [equal];
  const [low, high] = BARS.start;
  const rise = quick ? BARS.quickRise : BARS.rise;
  const held = [
    { ok: before >= low && before <= high, text: `${label}: the base is right in ${before.toFixed(3)}; from ${low} to ${high}` },
    { ok: after - before >= rise, text: `${moved} in ${stepsOf(run)} steps; at least + ${rise}` },
  ];
  if (quick) return [...held, equal];
  const memory = {
    ok: (run.peakMemoryBytes ?? 0) <= BARS.memoryBytes,
    text: `${label}: ${Math.round((run.peakMemoryBytes ?? NaN) / 1e6)} MB at most; at most ${BARS.memoryBytes / 1e6}`,
  };
  const time = { ok: run.seconds <= BARS.seconds, text: `${label}: ${run.seconds.toFixed(0)} s from command to result; at most ${BARS.seconds} s` };
  const share = executionShare(run);
  const execution = {
    ok: share <= BARS.executionShare,
    text: `${label}: executing programs took ${(100 * share).toFixed(1)} % of the CPU time; at most ${100 * BARS.executionShare} %`,
  };
  return [...held, ...judgeProposer(run), memory, execution, ...(isStrict ? [time] : []), equal];
}

function judgeMinute(run: SelfPlayRun): Verdict {
  const { accuracy, seconds } = BARS.minute;
  const [, after] = beforeAndAfter(run, ACCURACY);
  return {
    ok: after >= accuracy && run.seconds <= seconds,
    text: `${run.label}: held-out accuracy ${after.toFixed(3)} in ${run.seconds.toFixed(0)} s; at least ${accuracy} in ${seconds} s`,
  };
}

function judgeProposer({ label, rows }: SelfPlayRun): Verdict[] {
  const [valid, statements, distinct, learnability] = ['valid', 'statements', 'distinct', 'learnability'].map((name) =>
    ends(rows, `source/${name}`),
  ) as [Ends, Ends, Ends, Ends];
  const [validStart, validEnd] = BARS.valid;
  const [most, least] = [valid[0] <= validStart, valid[1] >= validEnd];
  return [
    {
      ok: most && least,
      text: `${label}: valid proposals ${valid[0].toFixed(2)} → ${valid[1].toFixed(2)}; from at most ${validStart} to at least ${validEnd}`,
    },
    {
      ok: statements[1] >= BARS.growth * statements[0],
      text: `${label}: statements of a proposal ${statements[0].toFixed(2)} → ${statements[1].toFixed(2)}; at least ${BARS.growth} times as many`,
    },
    { ok: distinct[1] >= BARS.distinct, text: `${label}: distinct proposals of a step ${distinct[1].toFixed(2)}; at least ${BARS.distinct}` },
    {
      ok: learnability[1] >= BARS.learnability,
      text: `${label}: learnability of the last ${LAST} steps ${learnability[1].toFixed(2)}; at least ${BARS.learnability}`,
    },
  ];
}

type Ends = readonly [first: number, last: number];

/** The conditions for a run without learned proposals, compared with one that has them. */
export function judgeFrozen(long: SelfPlayRun, frozen: SelfPlayRun): Verdict[] {
  const [own, fixed] = [long, frozen].map(({ rows }) => ends(rows, 'source/learnability')[1]) as [number, number];
  const [learned, kept] = [long, frozen].map((run) => beforeAndAfter(run, ACCURACY)[1]) as [number, number];
  return [
    {
      ok: fixed < own,
      text: `learnability of the last ${LAST} of ${stepsOf(long)} steps: ${fixed.toFixed(2)} of frozen proposals, ${own.toFixed(2)} of learned ones; must be less`,
    },
    {
      ok: true,
      text: `held-out accuracy after ${stepsOf(long)} steps: ${kept.toFixed(3)} with frozen proposals, ${learned.toFixed(3)} with learned ones; printed, whatever comes out`,
    },
  ];
}
