/**
 * One line of `vf-export`: a rollout in the form that a trainer needs. It holds every token that the policy saw or wrote, which of them it sampled and with which
 * log-prob, and the reward. docs/results.md describes every field.
 */
import type { XStatic } from 'typebox/schema';
import { encodeWithFloats } from './float-json.ts';
import { atLeastOne, byName, closed, count, listOf, number, only, text, textOrNull, textOrNumber } from './json-schema.ts';
import { isLogProb, isTokenId } from './log-prob-range.ts';
import {
  branchPlace,
  logProbsMode,
  optionalColumns,
  ownOfBranch,
  placedPicture,
  rolloutColumns,
  segmentVersions,
  tokenColumns,
  tokenSegment,
} from './rollout-columns.ts';
import { anySampling } from './sampling-columns.ts';
import { sampledPlaces, turnColumns, turnProblem } from './turn-columns.ts';

export const RolloutExportSchema = closed(
  {
    ...rolloutColumns,
    ...tokenColumns,
    segments: listOf(closed(tokenSegment, segmentVersions)),
    schema_version: only(1),
    example_id: textOrNumber,
    reward: number,
    metrics: byName(number),
    policy: closed({ model: text, version: count }),
    sampling: anySampling,
    logprobs_mode: logProbsMode,
    tokenizer_hash: textOrNull,
  },
  {
    run_name: text,
    ...optionalColumns,
    /** Of a rollout that has several branches, with a line for each: `rollout_id` is the same in all. */
    ...branchPlace,
    /** Of all of its branches, so that a reader of a stream knows when it has the whole rollout. */
    branch_count: atLeastOne,
    /** The branch's own reward, if the environment gives one; `reward` is the rollout's. */
    branch_reward: number,
    ends_last: ownOfBranch.ends_last,
    ...turnColumns,
    images: listOf(closed(placedPicture)),
  },
);
export type RolloutExport = XStatic<typeof RolloutExportSchema>;

/** The rollout as a line of an export, without the line feed. Rewards, metrics, log-probs and sampling parameters are floats in every line. */
export const exportLine = encodeWithFloats(RolloutExportSchema);

/** Checks the rules that JSON Schema cannot express: that lengths, nulls and segments agree. Null if they do. */
export function exportProblem(rollout: RolloutExport): string | null {
  const { token_ids: ids, loss_mask: mask, logprobs, segments, prompt_length: promptLength } = rollout;
  const misplaced = branchProblem(rollout);
  if (misplaced !== null) return misplaced;
  if (mask.length !== ids.length) return `loss_mask has ${mask.length} items for ${ids.length} tokens`;
  if (logprobs.length !== ids.length) return `logprobs has ${logprobs.length} items for ${ids.length} tokens`;
  if (mask[0] === 1) return 'loss_mask[0] is 1, but nothing predicts the first token';
  const odd = mask.findIndex((bit, i) => (bit === 1) !== (logprobs[i] !== null));
  if (odd >= 0) return `logprobs[${odd}] is ${String(logprobs[odd])} where loss_mask is ${mask[odd]}`;
  const foreign = ids.findIndex((id) => !isTokenId(id));
  if (foreign >= 0) return `token_ids[${foreign}] is ${ids[foreign]}, which no vocabulary has`;
  const wrong = logprobs.findIndex((value) => value !== null && !isLogProb(value));
  if (wrong >= 0) return `logprobs[${wrong}] is ${logprobs[wrong]}, which no sampler gives`;
  let end = 0;
  for (const [i, segment] of segments.entries()) {
    if (segment.start !== end || segment.end < segment.start) return `segments[${i}] is [${segment.start}, ${segment.end}) after ${end}`;
    end = segment.end;
    const bit = segment.kind === 'model' ? 1 : 0;
    const stray = mask.slice(segment.start, end).findIndex((b) => b !== bit);
    if (stray >= 0) return `loss_mask[${segment.start + stray}] is ${1 - bit} in a segment of kind ${segment.kind}`;
    if ((segment.version !== null) !== (bit === 1)) return `segments[${i}].version is ${segment.version} for kind ${segment.kind}`;
    const spans = segment.versions === undefined ? null : versionsProblem(segment.versions, segment);
    if (spans !== null) return `segments[${i}].${spans}`;
  }
  const lost = (rollout.images ?? []).findIndex(
    ({ offset, length }) => mask.slice(offset, offset + length).some((bit) => bit === 1) || offset + length > ids.length,
  );
  if (lost >= 0) return `images[${lost}] is not in the tokens that the policy was given`;
  if (end !== ids.length) return `segments end at ${end} of ${ids.length} tokens`;
  const prompt = segments[0]?.kind === 'prompt' ? segments[0].end : 0;
  if (prompt !== promptLength) return `prompt_length is ${promptLength} for a prompt of ${prompt} tokens`;
  return turnProblem(rollout, sampledPlaces(mask));
}

/** As TokenBuffer writes them: only for several versions, of which the segment's own is the oldest. */
function versionsProblem(
  versions: readonly { readonly version: number; readonly tokens: number }[],
  { start, end, version }: { readonly start: number; readonly end: number; readonly version: number | null },
): string | null {
  const covered = versions.reduce((sum, { tokens }) => sum + tokens, 0);
  if (covered !== end - start) return `versions cover ${covered} of ${end - start} tokens`;
  const oldest = Math.min(...versions.map((span) => span.version));
  return oldest === version ? null : `version is ${version}, and the oldest of its versions ${oldest}`;
}

function branchProblem({ branch, parent, branch_count: branches = Infinity }: RolloutExport): string | null {
  if (branch !== undefined && branch >= branches) return `branch is ${branch}, and branch_count ${branches}`;
  if ((branch === undefined) !== (parent === undefined)) return `it has ${branch === undefined ? 'parent but no branch' : 'branch but no parent'}`;
  return branch !== undefined && typeof parent === 'number' && parent >= branch ? `parent is ${parent} for branch ${branch}` : null;
}
