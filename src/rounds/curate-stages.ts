/** The stages that choose the next training data: buckets, reviews, hard prompts. Pure. */
import { ConfigError } from '../core/errors.ts';
import { type BucketBounds, bucketPrompts, hardPrompts, promptMeans, type ScoredPrompt } from './buckets.ts';
import { compareTexts } from './compare-texts.ts';
import type { Exclusions } from './exclusions.ts';
import { reviewReasons } from './review-reasons.ts';
import { lineWithExtra, type RoundRow } from './row-files.ts';
import type { StageResult } from './stage.ts';
import { assertJudged, ndcgOf, scoredRollouts, type TracedRollout } from './traced-rollouts.ts';
import type { Traces } from './read-traces.ts';

/** `ndcg` is 0 if the format gate failed, as DDAI's phase 1 logs it. `judge` is 0 for a rollout about which a run with a judge did not call it. */
export type Measure = 'ndcg' | 'judge' | 'reward';

export interface BucketOptions extends BucketBounds {
  /** @default 'ndcg' */
  readonly measure?: Measure;
  /** Prompts of the trace that the rows do not have are counted instead of refused. @default false */
  readonly leavesOutUnknown?: boolean;
}

/** Bucket A is the next training data, from the easiest prompt to the hardest; B is learned; 0 goes to a review. */
export function bucketStage({ rollouts, counts }: Traces, rows: readonly RoundRow[], options: BucketOptions = {}): StageResult {
  const { low = 0.1, high = 0.7, measure = 'ndcg', leavesOutUnknown = false } = options;
  if (!(low <= high)) throw new ConfigError(`The bounds of bucket A are ${low} and ${high}; the lower one must not be above the upper one`);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const scored = means(rollouts, measure);
  const { known, unknown } = knownPrompts(scored, byId, leavesOutUnknown);
  const buckets = bucketPrompts(known, { low, high });
  const lines = (prompts: readonly ScoredPrompt[]) => prompts.map(({ id, mean }) => lineWithExtra(byId.get(id)!, { [`phase1_${measure}`]: mean }));
  const byPrompt = Map.groupBy(rollouts, ({ prompt }) => prompt);
  return {
    rule: { measure, low, high, unknown_prompts: leavesOutUnknown ? 'counted' : 'refused' },
    counts: {
      rows: rows.length,
      prompts: known.length,
      bucket_a: buckets.A.length,
      bucket_b: buckets.B.length,
      bucket_0: buckets['0'].length,
      untraced: rows.length - known.length,
      unknown,
      ...(measure === 'judge' ? { unjudged: byPrompt.size - scored.length } : {}),
      ...traceCounts(counts),
    },
    outputs: [
      { name: 'bucket-a.jsonl', lines: lines(buckets.A) },
      { name: 'bucket-b.jsonl', lines: lines(buckets.B) },
      { name: 'bucket-0.jsonl', lines: lines(buckets['0']) },
      { name: 'review.jsonl', lines: buckets['0'].map(({ id, mean }) => JSON.stringify(reviewLine(id, mean, byPrompt.get(id)!))) },
    ],
  };
}

/** A line for a person, who sets `exclude` and gives a reason. */
function reviewLine(id: string, mean: number, rollouts: readonly TracedRollout[]) {
  const { question, reference, golden } = rollouts[0]!;
  const pages = [...new Set(rollouts.flatMap((rollout) => rollout.pages))].toSorted();
  return { id, exclude: false, reason: '', mean, reasons: reviewReasons(rollouts), question, reference, golden_pages: golden, pages_read: pages };
}

/** The rows without those that a review left out. */
export function reviewStage(
  rows: readonly RoundRow[],
  { reasons, listed }: Exclusions,
  outputs: { readonly kept: string; readonly excluded: string },
): StageResult {
  const unknown = unknownIds(reasons.keys(), rows);
  if (unknown.length > 0) throw new ConfigError(`${unknownText(unknown)}; give the rows that the list is about`);
  const excluded = rows.filter(({ id }) => reasons.has(id));
  const byReason = Map.groupBy(excluded, ({ id }) => reasons.get(id)!);
  return {
    rule: { excludes: 'listed' },
    counts: {
      rows: rows.length,
      kept: rows.length - excluded.length,
      excluded: excluded.length,
      listed,
      ...Object.fromEntries(
        [...byReason].map(([reason, own]) => [`excluded: ${reason}`, own.length] as const).toSorted(([a], [b]) => compareTexts(a, b)),
      ),
    },
    outputs: [
      { name: outputs.kept, lines: rows.filter(({ id }) => !reasons.has(id)).map(({ line }) => line) },
      { name: outputs.excluded, lines: excluded.map((row) => lineWithExtra(row, { excluded: reasons.get(row.id)! })) },
    ],
  };
}

export interface FocusOptions {
  /** Highest mean of a hard prompt. @default 0.2 (DDAI, hard A of round 1; 0.3 for round 2) */
  readonly threshold?: number;
  /** @default 'reward' */
  readonly measure?: Measure;
  /** Rows that are added completely, such as a reviewed bucket 0. @default none */
  readonly added?: readonly RoundRow[];
  /** Rows that are left out. @default none */
  readonly exclusions?: Exclusions;
  /** Ids of the lists that no row has are counted instead of refused, as is a trace that has no prompt of the rows. @default false */
  readonly leavesOutUnknown?: boolean;
  readonly output: string;
}

/**
 * The rows whose prompts are still hard, in their own order, then the added ones; without those that are left out. Prompts of the trace that no row has are
 * counted: the rows may be a part of those that were played, such as bucket A. Throws ConfigError if the lists name a missing row, or the trace names none of the rows.
 */
export function focusStage({ rollouts, counts }: Traces, rows: readonly RoundRow[], options: FocusOptions): StageResult {
  const { threshold = 0.2, measure = 'reward', added = [], leavesOutUnknown = false, output } = options;
  const { reasons, listed } = options.exclusions ?? { reasons: new Map<string, string>(), listed: 0 };
  const prompts = means(rollouts, measure);
  const ids = hardPrompts(prompts, threshold);
  const everyRow = [...rows, ...added];
  const [unlisted, unknown, untraced] = [
    unknownIds(reasons.keys(), everyRow),
    unknownIds(idsOf(prompts), everyRow),
    unknownIds(idsOf(rows), prompts),
  ];
  if (!leavesOutUnknown && unlisted.length > 0)
    throw new ConfigError(`${unknownText(unlisted)}; give the rows that the list is about, or --leave-out-unknown`);
  if (!leavesOutUnknown && rows.length > 0 && untraced.length === rows.length)
    throw new ConfigError('The trace has none of the prompts of the rows; give the trace of a run that played them, or --leave-out-unknown');
  const hard = rows.filter(({ id }) => ids.has(id));
  const taken = new Set(hard.map(({ id }) => id));
  const further = added.filter(({ id }) => !taken.has(id));
  const chosen = [...hard, ...further];
  const kept = chosen.filter(({ id }) => !reasons.has(id));
  return {
    rule: { measure, threshold, ...(leavesOutUnknown ? { unknown_listed: 'counted' } : {}) },
    counts: {
      rows: rows.length,
      hard: hard.length,
      added: further.length,
      duplicates: added.length - further.length,
      listed,
      excluded: chosen.length - kept.length,
      kept: kept.length,
      untraced: untraced.length,
      unknown: unknown.length,
      unknown_listed: unlisted.length,
      ...traceCounts(counts),
    },
    outputs: [{ name: output, lines: kept.map(({ line }) => line) }],
  };
}

/** With the measure `judge`, the means of the runs that called a judge. */
function means(rollouts: readonly TracedRollout[], measure: Measure): ScoredPrompt[] {
  if (measure === 'judge') assertJudged(rollouts, '--measure reward');
  const scored =
    measure === 'ndcg'
      ? rollouts.map((rollout) => ({ rollout, score: rollout.format === false ? 0 : ndcgOf(rollout, 'use --measure reward') }))
      : scoredRollouts(rollouts, measure);
  return promptMeans(scored.map(({ rollout, score }) => ({ id: rollout.prompt, value: score })));
}

function knownPrompts(prompts: readonly ScoredPrompt[], rows: ReadonlyMap<string, RoundRow>, leavesOut: boolean) {
  const known = prompts.filter(({ id }) => rows.has(id));
  const unknown = prompts.filter(({ id }) => !rows.has(id)).map(({ id }) => id);
  if (unknown.length > 0 && !leavesOut)
    throw new ConfigError(
      `The trace has ${listText(unknown)}, which the rows do not have; give the rows that were trained on, or --leave-out-unknown`,
    );
  return { known, unknown: unknown.length };
}

function idsOf(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

/** The ids that none of the rows has. */
function unknownIds(ids: Iterable<string>, rows: readonly { readonly id: string }[]): string[] {
  const known = new Set(idsOf(rows));
  return [...ids].filter((id) => !known.has(id));
}

function unknownText(ids: readonly string[]): string {
  return `A review list leaves out ${listText(ids)}, which the rows do not have`;
}

/** `the prompts "a", "b", "c" and 4 more` */
function listText(ids: readonly string[]): string {
  const first = ids
    .toSorted()
    .slice(0, 3)
    .map((id) => JSON.stringify(id));
  const more = ids.length > 3 ? ` and ${ids.length - 3} more` : '';
  return `the prompt${ids.length === 1 ? '' : 's'} ${first.join(', ')}${more}`;
}

/** The contents of the traces, for a manifest. */
export function traceCounts({ rollouts, failed, repeated, incomplete, evaluations, torn, unplaced }: Traces['counts']): Record<string, number> {
  return {
    rollouts,
    rollouts_failed: failed,
    rollouts_repeated: repeated,
    rollouts_incomplete: incomplete,
    evaluations,
    torn_lines: torn,
    ...(unplaced && { events_unplaced: unplaced }),
  };
}
