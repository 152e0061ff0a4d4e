/**
 * One line of `vf-export`: a rollout as a trainer needs it. Holds every token that the policy saw or wrote, which of them it sampled and with which
 * log-prob, and the reward. docs/results.md describes every field.
 */
import { type Static, type TSchema, Type } from 'typebox';

const Count = Type.Integer({ minimum: 0 });
const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const RolloutExportSchema = Type.Object(
  {
    schema_version: Type.Literal(1),
    rollout_id: Type.String(),
    /** Rollouts of one example share it. */
    group_id: Type.String(),
    example_id: Type.Union([Type.String(), Type.Number()]),
    reward: Type.Number(),
    metrics: Type.Record(Type.String(), Type.Number()),
    stop_condition: Type.String(),
    is_truncated: Type.Boolean(),
    policy: Type.Object({ model: Type.String(), version: Count }, { additionalProperties: false }),
    sampling: Type.Record(Type.String(), Type.Unknown()),
    logprobs_mode: Type.Union([Type.Literal('raw'), Type.Literal('processed'), Type.Literal('unknown'), Type.Literal('none')]),
    tokenizer_hash: Nullable(Type.String()),
    /** Prompt and response. [T] */
    token_ids: Type.Array(Count),
    /** 1 on the tokens that the policy sampled. [T] */
    loss_mask: Type.Array(Type.Union([Type.Literal(0), Type.Literal(1)])),
    /** Natural logarithms; null exactly where the mask is 0. [T] */
    logprobs: Type.Array(Nullable(Type.Number())),
    /** Tokens before the first sampled one: `segments[0]` is the prompt. */
    prompt_length: Count,
    /** In order and without gaps; `[start, end)` in tokens. `version` is the policy's, null in segments that it did not write. */
    segments: Type.Array(Type.Object({ kind: Type.String(), start: Count, end: Count, version: Nullable(Count) }, { additionalProperties: false })),
  },
  { additionalProperties: false },
);

export type RolloutExport = Static<typeof RolloutExportSchema>;

/** Checks what JSON Schema cannot: that lengths, nulls and segments agree. Null if they do. */
export function exportProblem(rollout: RolloutExport): string | null {
  const { token_ids: ids, loss_mask: mask, logprobs, segments, prompt_length: promptLength } = rollout;
  if (mask.length !== ids.length) return `loss_mask has ${mask.length} items for ${ids.length} tokens`;
  if (logprobs.length !== ids.length) return `logprobs has ${logprobs.length} items for ${ids.length} tokens`;
  const odd = mask.findIndex((bit, i) => (bit === 1) !== (logprobs[i] !== null));
  if (odd >= 0) return `logprobs[${odd}] is ${String(logprobs[odd])} where loss_mask is ${mask[odd]}`;
  let end = 0;
  for (const [i, segment] of segments.entries()) {
    if (segment.start !== end || segment.end < segment.start) return `segments[${i}] is [${segment.start}, ${segment.end}) after ${end}`;
    end = segment.end;
    const bit = segment.kind === 'model' ? 1 : 0;
    const stray = mask.slice(segment.start, end).findIndex((b) => b !== bit);
    if (stray >= 0) return `loss_mask[${segment.start + stray}] is ${1 - bit} in a segment of kind ${segment.kind}`;
    if ((segment.version !== null) !== (bit === 1)) return `segments[${i}].version is ${segment.version} for kind ${segment.kind}`;
  }
  if (end !== ids.length) return `segments end at ${end} of ${ids.length} tokens`;
  const prompt = segments[0]?.kind === 'prompt' ? segments[0].end : 0;
  return prompt === promptLength ? null : `prompt_length is ${promptLength} for a prompt of ${prompt} tokens`;
}
