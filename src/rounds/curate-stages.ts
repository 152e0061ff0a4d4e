/** The stages that choose what is trained next: buckets, reviews, hard prompts. Pure. */
import { ConfigError } from '../core/errors.ts';
import { type BucketBounds, bucketPrompts, hardPrompts, promptMeans, type ScoredPrompt } from './buckets.ts';
import type { Exclusions } from './exclusions.ts';
import { reviewReasons } from './review-reasons.ts';
import { rowLine, type RoundRow, withExtra } from './row-files.ts';
import type { StageResult } from './stage.ts';
import { assertJudged, scoredRollouts, type TracedRollout } from './traced-rollouts.ts';
import type { Traces } from './read-traces.ts';

/** `ndcg` is 0 where the format gate failed, as DDAI's phase 1 logs it. `judge` is 0 where a run that asks a judge did not ask it. */
export type Measure = 'ndcg' | 'judge' | 'reward';

export interface BucketOptions extends BucketBounds {
  /** @default 'ndcg' */
  readonly measure?: Measure;
  /** Prompts that the rows do not have are counted instead of being an error. @default false */
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
  const lines = (prompts: readonly ScoredPrompt[]) =>
    prompts.map(({ id, mean }) => rowLine(withExtra(byId.get(id)!, { [`phase1_${measure}`]: mean })));
  const byPrompt = Map.groupBy(rollouts, ({ prompt }) => prompt);
  return {
    rule: { measure, low, high, unknown: leavesOutUnknown ? 'left_out' : 'error' },
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

/** For a person, who sets `exclude` and says why. */
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
  assertKnown([...reasons.keys()], rows, 'A review list leaves out');
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
        [...byReason].map(([reason, own]) => [`excluded: ${reason}`, own.length] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      ),
    },
    outputs: [
      { name: outputs.kept, lines: rows.filter(({ id }) => !reasons.has(id)).map(({ fields }) => rowLine(fields)) },
      { name: outputs.excluded, lines: excluded.map((row) => rowLine(withExtra(row, { excluded: reasons.get(row.id)! }))) },
    ],
  };
}

export interface FocusOptions {
  /** Highest mean of a hard prompt. @default 0.2 (DDAI, hard A of round 1; 0.3 for round 2) */
  readonly threshold?: number;
  /** @default 'reward' */
  readonly measure?: Measure;
  /** Rows that are added whole, such as a reviewed bucket 0. @default none */
  readonly added?: readonly RoundRow[];
  /** Rows that are left out. @default none */
  readonly exclusions?: Exclusions;
  readonly output: string;
}

/** The rows whose prompts are still hard, in their own order, then the added ones; without those that are left out. */
export function focusStage({ rollouts, counts }: Traces, rows: readonly RoundRow[], options: FocusOptions): StageResult {
  const { threshold = 0.2, measure = 'reward', added = [], output } = options;
  const reasons = options.exclusions?.reasons ?? new Map<string, string>();
  const ids = hardPrompts(means(rollouts, measure), threshold);
  const hard = rows.filter(({ id }) => ids.has(id));
  const taken = new Set(hard.map(({ id }) => id));
  const further = added.filter(({ id }) => !taken.has(id));
  const chosen = [...hard, ...further];
  const kept = chosen.filter(({ id }) => !reasons.has(id));
  return {
    rule: { measure, threshold },
    counts: {
      rows: rows.length,
      hard: hard.length,
      added: further.length,
      duplicates: added.length - further.length,
      listed: reasons.size,
      excluded: chosen.length - kept.length,
      kept: kept.length,
      ...traceCounts(counts),
    },
    outputs: [{ name: output, lines: kept.map(({ fields }) => rowLine(fields)) }],
  };
}

/** With the measure `judge`, of the runs that asked one. */
function means(rollouts: readonly TracedRollout[], measure: Measure): ScoredPrompt[] {
  if (measure === 'judge') assertJudged(rollouts, '--measure reward');
  const scored =
    measure === 'ndcg'
      ? rollouts.map((rollout) => ({ rollout, score: rollout.format === false ? 0 : rollout.ndcg }))
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

function assertKnown(ids: readonly string[], rows: readonly RoundRow[], what: string): void {
  const known = new Set(rows.map(({ id }) => id));
  const unknown = ids.filter((id) => !known.has(id));
  if (unknown.length > 0) throw new ConfigError(`${what} ${listText(unknown)}, which the rows do not have; give the rows that the list is about`);
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

/** What the traces had, for a manifest. */
export function traceCounts({ rollouts, failed, repeated, incomplete, evaluations, torn }: Traces['counts']): Record<string, number> {
  return { rollouts, rollouts_failed: failed, rollouts_repeated: repeated, rollouts_incomplete: incomplete, evaluations, torn_lines: torn };
}
