/** One line of `asked.jsonl`: the calls of a rollout to models other than the policy. docs/roles.md describes every field. */
import type { XStatic } from 'typebox/schema';
import { encodeWithFloats } from './float-json.ts';
import { anyOf, count, countOrNull, listOf, number, object, only, text } from './json-schema.ts';
import { finish, messageCalls, picture, usage } from './rollout-columns.ts';

const part = anyOf(object({ type: only('text'), text }), object({ type: only('image'), image: object(picture) }));

const AskedSchema = object(
  {
    role: text,
    model: text,
    /** Version of the policy, if it played the role. */
    version: countOrNull,
    usage: object(usage),
    finish,
    ms: number,
    wait_ms: number,
    /** 0 if the reply came from the cache. */
    attempts: count,
    messages: listOf(object({ role: text, content: anyOf(text, listOf(part)) }, messageCalls)),
    text,
  },
  /** Thoughts that the server returned outside the text. */
  { reasoning: text },
);
export type WireAsked = XStatic<typeof AskedSchema>;

export const AskedLineSchema = object({ schema_version: only(1), rollout_id: text, asked: listOf(AskedSchema) });
export type WireAskedLine = XStatic<typeof AskedLineSchema>;

/** The calls as a line of the file, without the line feed. */
export const askedLineText = encodeWithFloats(AskedLineSchema);
