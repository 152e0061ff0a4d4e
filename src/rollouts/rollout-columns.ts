/** The facts of a rollout as the columns that all its files share, and back. */
import type { ModelFailure } from '../core/errors.ts';
import type { PlacedImage } from '../core/message.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { WireTokens } from '../schemas/results.ts';
import type { RolloutError, RolloutFacts, RolloutUsage } from './rollout.ts';

/** The role of a rollout if an environment has only one speaker. */
export const ONLY_ROLE = 'policy';

/** Columns of `results.jsonl` and of a training step's rollouts. The schemas of both files spread `rolloutColumns` of `schemas/`. */
export function factColumns(facts: RolloutFacts) {
  return {
    rollout_id: facts.rolloutId,
    group_id: facts.groupId,
    rollout_index: facts.index,
    ...roleAndTask(facts),
    reward: facts.reward,
    stop_condition: facts.stop,
    is_truncated: facts.isTruncated,
    is_cut: facts.isCut,
    model: facts.policy.model,
    policy_version: facts.policy.version,
    num_turns: facts.turns,
  };
}

/** Absent if rows have none; the policy of an environment with one speaker has no role. */
export function roleAndTask({ role = ONLY_ROLE, task }: WithRoleAndTask): { readonly role?: string; readonly task?: string } {
  return { ...(typeof task === 'string' ? { task } : {}), ...(role === ONLY_ROLE ? {} : { role }) };
}

interface WithRoleAndTask {
  readonly role?: string | undefined;
  readonly task?: string | null | undefined;
}

export function usageColumns({ inputTokens, outputTokens, cachedTokens }: RolloutUsage) {
  return { input_tokens: inputTokens, output_tokens: outputTokens, cached_tokens: cachedTokens };
}

export function usageOf({
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  cached_tokens: cachedTokens,
}: ReturnType<typeof usageColumns>): RolloutUsage {
  return { inputTokens, outputTokens, cachedTokens };
}

/** The way in which a model other than the policy failed, from a file that may be of another version. */
export function reasonOf({ reason }: { readonly reason?: string }): Pick<RolloutError, 'reason'> {
  return reason === undefined ? {} : { reason: reason as ModelFailure };
}

interface FactColumns extends ReturnType<typeof factColumns> {
  readonly token_usage: ReturnType<typeof usageColumns>;
}

/** Metrics and errors have another form in each file. */
export function factsOf(columns: FactColumns): Omit<RolloutFacts, 'metrics' | 'error'> {
  return {
    rolloutId: columns.rollout_id,
    groupId: columns.group_id,
    index: columns.rollout_index,
    task: columns.task ?? null,
    ...(columns.role === undefined ? {} : { role: columns.role }),
    reward: columns.reward,
    stop: columns.stop_condition,
    isTruncated: columns.is_truncated,
    isCut: columns.is_cut,
    turns: columns.num_turns,
    policy: { model: columns.model, version: columns.policy_version },
    usage: usageOf(columns.token_usage),
  };
}

/** Every token of an episode, by author. Loops, because Array.from takes three times as long and this runs over every token of every rollout. */
export function bufferColumns({ ids, mask, logProbs, promptLength, segments, images }: TokenBuffer): Omit<WireTokens, 'rollout_id'> {
  const lossMask: (0 | 1)[] = [];
  const logprobs: (number | null)[] = [];
  for (let i = 0; i < ids.length; i++) {
    const isSampled = mask[i] === 1;
    lossMask.push(isSampled ? 1 : 0);
    // The buffer holds NaN exactly where the mask is 0, and JSON has no NaN.
    logprobs.push(isSampled ? logProbs[i]! : null);
  }
  return {
    token_ids: plainNumbers(ids),
    loss_mask: lossMask,
    logprobs,
    prompt_length: promptLength,
    segments: segments.map(({ versions, ...segment }) => ({
      ...segment,
      ...(versions === undefined ? {} : { versions: versions.map(({ version, tokens: count }) => ({ version, tokens: count })) }),
    })),
    ...(images.length === 0 ? {} : { images: images.map(imageColumns) }),
  };
}

export function imageColumns({ sha256, mediaType, width, height, offset, length }: PlacedImage) {
  return { sha256, media_type: mediaType, width, height, offset, length };
}

export function placedImageOf({ media_type: mediaType, sha256, width, height, offset, length }: ReturnType<typeof imageColumns>): PlacedImage {
  return { sha256, mediaType, width, height, offset, length };
}

/** A list that JSON.stringify writes as a list. */
export function plainNumbers(values: Int32Array): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < values.length; i++) numbers.push(values[i]!);
  return numbers;
}
