/**
 * Asks a model about many rows, each for one JSON object. The rows may themselves contain such objects, and a model may quote them, so an object counts only if the
 * reply is nothing else.
 */
import { ModelError, thrownText } from '../core/errors.ts';
import { finalObject } from '../core/json-reply.ts';
import { afterThoughts } from '../core/text-outside-thoughts.ts';
import type { Message } from '../core/message.ts';
import type { Model, ModelReply } from '../core/model.ts';
import { structuredReply } from '../core/structured-reply.ts';
import { schemaCheck, schemaProblem } from '../schemas/schema-check.ts';
import { mapStrings } from '../transport/redact.ts';

export interface Question<T> {
  /** Id of the row, for messages. */
  readonly id: string;
  readonly messages: readonly Message[];
  readonly schema: Readonly<Record<string, unknown>>;
  /** Reads a reply that fits the schema: its value, or a string that describes the fault. */
  readonly parse: (reply: Readonly<Record<string, unknown>>) => T | string;
  /** The answer that replaces two replies that cannot be used. @default they are a failure */
  readonly unusable?: T;
}

export interface AskOptions {
  readonly role: string;
  readonly model: Model;
  /** Most tokens of a reply. @default 3072 */
  readonly maxTokens?: number;
  /** Removes secrets: a server may repeat the key that it was sent, in any spelling of JSON. @default no change */
  readonly redact?: (text: string) => string;
  /** The file that keeps the answers for another attempt. @default none */
  readonly keptIn?: string | null;
  readonly signal: AbortSignal;
  readonly onAnswer?: (done: number, total: number) => void;
}

/** Rows asked at once; the role's own limit may be lower. */
const AT_ONCE = 64;

/**
 * The answers by row, in order. A malformed reply is requested once more. All rows are asked before a failure is thrown, so that a cache on disk has every existing
 * answer, and another attempt asks only for the rest. A spent budget, a used-up credit or a rejected key ends it at once.
 */
export async function askRows<T>(questions: readonly Question<T>[], options: AskOptions): Promise<T[]> {
  const { role, signal, onAnswer } = options;
  const answers: ({ readonly value: T } | undefined)[] = [];
  const failures: string[] = [];
  let [next, done] = [0, 0];
  let ended: ModelError | null = null;
  const work = async () => {
    while (next < questions.length) {
      const i = next++;
      const question = questions[i]!;
      try {
        answers[i] = { value: await answerTo(question, options) };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof ModelError && (error.reason === 'budget' || error.endsRun)) {
          // No later request can succeed; those under way may, and their answers are kept.
          ended ??= error;
          next = questions.length;
          return;
        }
        failures.push(`${question.id}: ${thrownText(error)}`);
      }
      onAnswer?.(++done, questions.length);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, questions.length) }, work));
  if (ended !== null) throw ended as ModelError;
  if (failures.length > 0) throw new ModelError(failureText(failures, questions.length, options), { role, reason: 'failed' });
  return answers.map((answer) => answer!.value);
}

function failureText(failures: readonly string[], rows: number, { role, keptIn = null }: AskOptions): string {
  const what = `The role ${role} gave no usable answer to ${failures.length} of ${rows} rows, first to ${failures[0]!.replace(/\.$/, '')}`;
  if (keptIn === null || failures.length === rows) return `${what}. Fix this, then run the command again.`;
  return `${what}. Fix this, then run the command again: it asks for these rows alone, because ${keptIn} keeps the other answers.`;
}

async function answerTo<T>(
  { messages, schema, parse, unusable }: Question<T>,
  { role, model, maxTokens = 3072, redact = (text) => text, signal }: AskOptions,
): Promise<T> {
  const redacted = (reply: ModelReply): ModelReply => ({ ...reply, text: redact(reply.text) });
  const read = (reply: ModelReply): { readonly value: T } | string => {
    const found = soleObject(redacted(reply));
    if (typeof found === 'string') return found;
    const check = schemaCheck(schema);
    if (!check(found)) return schemaProblem(check, 'its JSON object');
    // Redacted again, because JSON may spell a character in several ways.
    const value = parse(mapStrings(found, redact));
    return typeof value === 'string' ? value : { value };
  };
  const asked: Model = { name: model.name, generate: async (conversation, request) => redacted(await model.generate(conversation, request)) };
  try {
    return (await structuredReply(asked, messages, { role, responseSchema: schema, maxTokens, read, signal })).value;
  } catch (error) {
    if (unusable !== undefined && error instanceof ModelError && error.reason === 'malformed') return unusable;
    throw error;
  }
}

/** The object that is the whole reply, possibly in a code fence or a tag, or a description of the fault. */
function soleObject({ text, finish }: ModelReply): Readonly<Record<string, unknown>> | string {
  // The last object of a truncated reply may be one that the reasoning quotes.
  const isCut = finish === 'length';
  const found = finalObject(isCut ? text : afterThoughts(text));
  if (isCut && (typeof found === 'string' || !found.isAlone)) return 'it was cut off before it ended with a JSON object';
  if (typeof found === 'string') return found;
  if (found.earlier.length > 0) return 'it holds several JSON objects';
  return found.isAlone ? found.value : 'text stands before its JSON object, which may be a quotation';
}
