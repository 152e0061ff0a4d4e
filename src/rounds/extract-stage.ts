/** Chooses the rollouts that become demonstrations: successes where success is rare (DDAI, extract_trajectories). Pure. */
import { ConfigError } from '../core/errors.ts';
import { traceCounts } from './curate-stages.ts';
import { demonstration, demonstrationId, OBSTACLES } from './demonstration.ts';
import { actionsOf, systemErrors } from './messages-v1.ts';
import { keepRollouts, type KeptPrompt } from './rare-success.ts';
import type { Traces } from './read-traces.ts';
import type { MessageV1 } from '../schemas/messages-v1.ts';
import type { StageResult } from './stage.ts';
import { assertJudged, ndcgOf, type TracedRollout, turnsOf } from './traced-rollouts.ts';

export interface ExtractOptions {
  /** The measure of a success. @default 'judge' */
  readonly success?: 'judge' | 'reward';
  /** The lowest value of a success. @default 1 */
  readonly threshold?: number;
  /** Highest share of successes of a prompt whose rollouts are taken. @default 0.5 (DDAI) */
  readonly maxRate?: number;
  /** Lowest share of successes of a prompt whose rollouts are taken; always more than 0. @default 0 */
  readonly minRate?: number;
  /** Most turns of the policy in a rollout. @default no bound */
  readonly maxTurns?: number;
  /** Most rollouts of a prompt, by reward, then by NDCG; all with `successOnly`, which leaves the choice to `finalize`. @default 4 (DDAI) */
  readonly top?: number;
  /** Keeps only successes with an NDCG above 0 whose tools all answered. @default false */
  readonly successOnly?: boolean;
  /** Replaces the trace's own prompts. @default those of the trace */
  readonly systemPrompt?: string;
  readonly output: string;
}

/** DDAI's bound, which leaves out an NDCG of 0. */
const ABOVE_ZERO = 1e-9;

/** The count of successes that cannot become demonstrations; `WITHOUT: obstacle` counts those with this obstacle. */
const WITHOUT = 'without_demonstration';

function withDefaults({ success = 'judge', threshold = 1, maxRate = 0.5, successOnly = false, top }: ExtractOptions) {
  return { success, threshold, maxRate, successOnly, top: top ?? (successOnly ? null : 4) } as const;
}

/** The prompts and rollouts that are taken; no texts are needed. Throws ConfigError if a judge decides and the rollouts have none. */
export function rareSuccesses(rollouts: readonly TracedRollout[], options: ExtractOptions): KeptPrompt[] {
  const { success, threshold, maxRate, successOnly, top } = withDefaults(options);
  if (success === 'judge') assertJudged(rollouts, '--success reward');
  if (successOnly) for (const rollout of rollouts) ndcgOf(rollout, 'leave out --success-only');
  const kept = keepRollouts(rollouts, {
    ...(success === 'judge' ? { minJudge: threshold } : { minScore: threshold }),
    successMetric: success === 'judge' ? 'judge' : 'score',
    successThreshold: threshold,
    maxSuccessRate: maxRate,
    ...(options.minRate === undefined ? {} : { minSuccessRate: options.minRate }),
    ...(options.maxTurns === undefined ? {} : { maxTurns: options.maxTurns }),
    ...(successOnly ? { minNdcg: ABOVE_ZERO } : {}),
    ...(top === null ? {} : { top }),
  });
  return kept.filter(({ successRate }) => successRate > 0);
}

export function extractStage({ rollouts, counts }: Traces, kept: readonly KeptPrompt[], options: ExtractOptions): StageResult {
  const { success, threshold, maxRate, successOnly, top } = withDefaults(options);
  const { systemPrompt, output, minRate, maxTurns } = options;
  const taken = kept.flatMap((prompt) => prompt.kept.map((rollout) => ({ prompt, rollout })));
  const bare = taken.find(({ rollout }) => rollout.opening === null);
  if (bare !== undefined && systemPrompt === undefined)
    throw new ConfigError(
      `The trace of ${JSON.stringify(bare.rollout.prompt)} has no prompts, as DDAI's do not; name a file with the system prompt: --system FILE`,
    );
  const rows = taken.map(({ prompt, rollout }) => ({
    prompt,
    rollout,
    messages: demonstration(rollout, systemPrompt === undefined ? {} : { systemPrompt }),
  }));
  const written = rows.flatMap(({ messages, ...row }) => (typeof messages === 'string' ? [] : [{ ...row, messages }]));
  const obstacles = Object.keys(OBSTACLES).map((name) => [`${WITHOUT}: ${name}`, rows.filter(({ messages }) => messages === name).length] as const);
  const clean = successOnly ? written.filter(({ messages }) => systemErrors(messages) === 0) : written;
  const lines = clean.map(candidateLine);
  const counted = {
    prompts: new Set(rollouts.map(({ prompt }) => prompt)).size,
    prompts_kept: kept.length,
    candidates: taken.length,
    [WITHOUT]: rows.length - written.length,
    ...Object.fromEntries(obstacles.filter(([, count]) => count > 0)),
    with_system_errors: written.length - clean.length,
    rows: lines.length,
    ...traceCounts(counts),
  };
  const isBounded = minRate !== undefined || maxTurns !== undefined;
  const why = taken.length > 0 ? lossText(counted) : isBounded ? null : whyNoneKept(rollouts, { success, threshold, maxRate });
  return {
    rule: {
      success,
      threshold,
      ...(minRate === undefined ? {} : { min_rate: minRate }),
      max_rate: maxRate,
      ...(maxTurns === undefined ? {} : { max_turns: maxTurns }),
      top,
      success_only: successOnly,
      system_prompt: systemPrompt === undefined ? 'trace' : 'given',
    },
    counts: counted,
    outputs: [{ name: output, lines }],
    ...(why === null ? {} : { why }),
  };
}

/** The row of a demonstration, with its messages and what later stages need. */
function candidateLine({
  prompt,
  rollout,
  messages,
}: {
  readonly prompt: KeptPrompt;
  readonly rollout: TracedRollout;
  readonly messages: readonly MessageV1[];
}): string {
  const { queries, boxes } = actionsOf(messages);
  return JSON.stringify({
    uid: demonstrationId(rollout),
    format_version: 'v1',
    messages: JSON.stringify(messages),
    prompt_uid: rollout.prompt,
    sample_idx: rollout.index,
    run_id: rollout.run,
    question: rollout.question,
    reference: rollout.reference,
    answer: rollout.answer,
    reward: rollout.reward,
    judge: rollout.judge,
    ndcg: rollout.ndcg,
    success_rate: prompt.successRate,
    successes: prompt.successes,
    turns: turnsOf(rollout),
    queries,
    boxes,
    pages: rollout.pages,
  });
}

/** Explains the successes that gave no row, by the counts of `extract`: sentences for the user; null if all gave one. */
export function lossText(counts: Readonly<Record<string, number>>): string | null {
  const { [WITHOUT]: without = 0, with_system_errors: failed = 0 } = counts;
  const reasons = Object.entries(OBSTACLES).flatMap(([name, text]) => {
    const count = counts[`${WITHOUT}: ${name}`] ?? 0;
    return count === 0 ? [] : [`in ${count === without ? (count === 1 ? 'it' : 'each') : count}, ${text}`];
  });
  const what = without === 1 ? '1 success cannot become a demonstration' : `${without} successes cannot become demonstrations`;
  const sentences = [
    ...(without === 0 ? [] : [[what, ...(reasons.length === 0 ? [] : [reasons.join('; ')])].join(': ')]),
    ...(failed === 0 ? [] : [`--success-only leaves out ${failed}, because a tool failed`]),
  ];
  return sentences.length === 0 ? null : sentences.join('. ');
}

function whyNoneKept(
  rollouts: readonly TracedRollout[],
  { success, threshold, maxRate }: Required<Pick<ExtractOptions, 'success' | 'threshold' | 'maxRate'>>,
): string | null {
  const succeeding = keepRollouts(rollouts, {
    minScore: -Infinity,
    successMetric: success === 'judge' ? 'judge' : 'score',
    successThreshold: threshold,
  }).filter(({ successes }) => successes > 0);
  if (succeeding.length === 0) return `No rollout has a ${success === 'judge' ? 'judge score' : 'reward'} of at least ${threshold} (--threshold)`;
  if (succeeding.some(({ successRate }) => successRate <= maxRate)) return null;
  const lowest = Math.min(...succeeding.map(({ successRate }) => successRate));
  return `Every prompt with a success (${succeeding.length}) succeeds in more than ${maxRate} of its rollouts, the least in ${shortNumber(lowest)}; a higher --max-rate takes them`;
}

function shortNumber(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}
