/** Asks a model about many rows, each for one JSON object. */
import { finalObject } from '../core/json-reply.ts';
import { ModelError, thrownText } from '../core/errors.ts';
import type { Model } from '../core/model.ts';
import type { Message } from '../core/message.ts';
import { structuredReply } from '../core/structured-reply.ts';

export interface Question<T> {
  /** Of the row, for messages. */
  readonly id: string;
  readonly messages: readonly Message[];
  readonly schema: Readonly<Record<string, unknown>>;
  /** What the reply says, or a string with what is wrong with it. */
  readonly parse: (reply: Readonly<Record<string, unknown>>) => T | string;
  /** Stands for two replies that cannot be used. @default they are a failure */
  readonly unusable?: T;
}

export interface AskOptions {
  readonly role: string;
  readonly model: Model;
  /** Most tokens of a reply. @default 3072 */
  readonly maxTokens?: number;
  readonly signal: AbortSignal;
  readonly onAnswer?: (done: number, total: number) => void;
}

/** Rows asked at once; the role's own limit may be lower. */
const AT_ONCE = 64;

/**
 * The answers by row, in order. A malformed reply is asked for once more. All rows are asked before a failure is thrown, so that a cache on disk has every
 * answer that there is and another attempt asks for the rest alone.
 */
export async function askRows<T>(questions: readonly Question<T>[], options: AskOptions): Promise<T[]> {
  const { role, signal, onAnswer } = options;
  const answers: ({ readonly value: T } | undefined)[] = [];
  const failures: string[] = [];
  let [next, done] = [0, 0];
  const work = async () => {
    while (next < questions.length) {
      const i = next++;
      const question = questions[i]!;
      try {
        answers[i] = { value: await answerTo(question, options) };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof ModelError && error.reason === 'budget') throw error;
        failures.push(`${question.id}: ${thrownText(error)}`);
      }
      onAnswer?.(++done, questions.length);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, questions.length) }, work));
  if (failures.length > 0)
    throw new ModelError(
      `The role ${role} gave no usable answer to ${failures.length} of ${questions.length} rows, first to ${failures[0]}. Run the command again: answers that are there come from the cache`,
      {
        role,
        reason: 'failed',
      },
    );
  return answers.map((answer) => answer!.value);
}

async function answerTo<T>({ messages, schema, parse, unusable }: Question<T>, { role, model, maxTokens = 3072, signal }: AskOptions): Promise<T> {
  const read = ({ text }: { readonly text: string }): { readonly value: T } | string => {
    const found = finalObject(text);
    if (typeof found === 'string') return found;
    const value = parse(found.value);
    return typeof value === 'string' ? value : { value };
  };
  try {
    return (await structuredReply(model, messages, { role, responseSchema: schema, maxTokens, read, signal })).value;
  } catch (error) {
    if (unusable !== undefined && error instanceof ModelError && error.reason === 'malformed') return unusable;
    throw error;
  }
}
