/** The fields of a chat API's error, in the shapes that servers give them. */
import { fieldsOf } from '../schemas/is-object.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

export type ChatErrorFields = Readonly<Record<'code' | 'type' | 'message' | 'param', string>>;

/** Number of bytes of an error response that are read. */
const READ_BYTES = 65_536;

/**
 * Most servers send `{error: {message, code, ...}}`, some `{error: "message"}`, `{message, code}` or `{detail}`, Gemini a list of one, MiniMax
 * `{base_resp: {status_code, status_msg}}`. A body that is not JSON is the message.
 */
export function chatErrorFields(body: Buffer): ChatErrorFields {
  const text = body.subarray(0, READ_BYTES).toString('utf8');
  const json = jsonOrNull(text);
  const parsed = fieldsOf(Array.isArray(json) ? (json as unknown[])[0] : json);
  const { error, base_resp: base } = parsed;
  const { status_code: code, status_msg: message } = fieldsOf(base);
  const fields =
    typeof error === 'string' ? { ...parsed, message: error } : base === undefined ? { ...parsed, ...fieldsOf(error) } : { code, message };
  const field = (name: string) => fieldText((fields as Readonly<Record<string, unknown>>)[name]);
  return { code: field('code'), type: field('type'), message: field('message') || text.slice(0, 2000), param: field('param') };
}

function fieldText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
