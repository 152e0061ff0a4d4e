/** Asks a model for a reply of a certain form. If it cannot be used, asks once more and names the fault. */
import { ModelError } from './errors.ts';
import type { Message } from './message.ts';
import type { Model, ModelReply, ModelRequest } from './model.ts';

export interface StructuredRequest<T extends object> extends Omit<ModelRequest, 'isUsable'> {
  /** The role that the model plays, for errors. */
  readonly role: string;
  /** JSON Schema of the reply, which is an object. */
  readonly responseSchema: Readonly<Record<string, unknown>>;
  /** Returns the contents of the reply, or the reason why it cannot be used, as a clause with the reply as `it`. Never throws. */
  readonly read: (reply: ModelReply) => T | string;
  /** Completes "gave no usable ... in two replies". @default 'answer' */
  readonly wanted?: string;
}

/**
 * The model's answer. A second attempt follows in the same conversation if the first reply cannot be used. Throws ModelError: with the reason `malformed` if the
 * second cannot be used either, else as the model does.
 * @example
 * const { verdict } = await structuredReply(models.vetter, messages, { role: 'vetter', responseSchema, maxTokens: 256, read, signal });
 */
export async function structuredReply<T extends object>(
  model: Model,
  messages: readonly Message[],
  { role, read, wanted = 'answer', ...request }: StructuredRequest<T>,
): Promise<T> {
  const isUsable = (reply: ModelReply) => typeof read(reply) !== 'string';
  const ask = (conversation: readonly Message[]) => model.generate(conversation, { ...request, isUsable });
  const first = await ask(messages);
  const found = read(first);
  if (typeof found !== 'string') return found;
  const schema = JSON.stringify(request.responseSchema);
  const repair = `Your reply cannot be used: ${found}. Reply with one JSON object that fits this JSON Schema, and nothing else: ${schema}`;
  const second = await ask([...messages, { role: 'assistant', content: first.text }, { role: 'user', content: repair }]);
  const repaired = read(second);
  if (typeof repaired !== 'string') return repaired;
  const quoted = JSON.stringify(second.text.length > 200 ? `${second.text.slice(0, 200)}…` : second.text);
  throw new ModelError(
    `The model of role ${role} (${model.name}) gave no usable ${wanted} in two replies. The second reply cannot be used: ${repaired}. It was ${quoted}.${second.finish === 'length' ? cutOff(role) : ''}`,
    { role, reason: 'malformed' },
  );
}

/** A model that thinks needs thousands of tokens, and the caller asks for those of the answer. */
function cutOff(role: string): string {
  return ` It was cut off at its limit of tokens, thoughts included: raise max_tokens of the role, for example with --role ${role}.max_tokens=4096.`;
}
