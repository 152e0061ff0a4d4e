/** A branch of a rollout in `results.jsonl`, and the messages that it and the rollout consist of. */
import type { XStatic } from 'typebox/schema';
import { anyOf, count, countOrNull, json, listOf, nullable, object, only, text } from './json-schema.ts';
import { branchFacts, messageCalls, ownOfBranch, picture, recordColumns } from './rollout-columns.ts';

export const WireMessageSchema = object(
  { role: text, content: text },
  {
    ...messageCalls,
    /** Present if the content is more than text; `content` then holds only its text. */
    parts: listOf(anyOf(object({ type: only('text'), text }), object({ type: only('image'), ...picture }))),
  },
);
export type WireMessage = XStatic<typeof WireMessageSchema>;

export const tools = listOf(object({ name: text, description: text, parameters: json }));

/** A branch of a rollout that has several. Its segments and generations are the next ones of the record's. */
export const branchColumns = object(
  {
    ...branchFacts,
    segments: count,
    generations: count,
    /** All tokens of its sequence, and those that the policy sampled in it; null in chat mode. */
    tokens: countOrNull,
    sampled_tokens: countOrNull,
  },
  {
    ...ownOfBranch,
    /** Its prompt is the first messages of an earlier branch, prompt and completion, followed by `prompt`; null if no other begins in the same way. Both are absent for the first. */
    begins_with: nullable(object({ branch: count, messages: count })),
    prompt: listOf(WireMessageSchema),
    /** Absent if it was offered those of the first. */
    tools,
    /** What was said after its prompt, if the record's segments are texts that an agent gave to be scored; `segments` is then 0. */
    played: object({ segments: recordColumns.segments, completion: listOf(WireMessageSchema) }),
  },
);
export type WireBranch = XStatic<typeof branchColumns>;
