/** The requests to `python/runner.py` and `python/analyst.py` and their answers, as fields of frames. The answers are untrusted: a program may have written them. */
import { TimeoutError } from '../core/errors.ts';
import type { Attempt } from './attempt.ts';
import type { AnalyseOptions, CallResult, CodeFacts, ExecutionJob } from './code-executor.ts';

/** Room for a message and the fields around it, in bytes. */
const REPLY_OVERHEAD = 2000;
/** The facts about a program repeat it. */
export const ANALYSIS_REPLY_BYTES = 64 * 2 ** 20;
const UTF8_BYTES = 4;
const MESSAGE_LENGTH = 200;

export function jobFields({ code, calls, limits }: ExecutionJob): string[] {
  return [String(limits.reprLength), code, ...calls];
}

/** The longest honest reply to a job, in bytes. */
export function replyBytes({ calls, limits }: ExecutionJob): number {
  return (1 + calls.length) * (UTF8_BYTES * limits.reprLength + REPLY_OVERHEAD);
}

export type Reply =
  | { readonly kind: 'ran'; readonly calls: readonly CallResult[] }
  /** Numbers of calls whose arguments must be evaluated apart from the program. */
  | { readonly kind: 'apart'; readonly calls: readonly number[] }
  /** Each call needs an interpreter of its own. */
  | { readonly kind: 'single' }
  | { readonly kind: 'crashed'; readonly detail: string };

/** The meaning of a reply. A reply without meaning was written by the program. */
export function readReply(fields: readonly Uint8Array[], calls: number): Reply {
  const [status, ...texts] = fields.map((field) => Buffer.from(field).toString());
  if (status === 'single' && texts.length === 0 && calls > 1) return { kind: 'single' };
  if (status === 'apart' && texts.length <= calls) return { kind: 'apart', calls: texts.map(Number) };
  if (status !== 'ran' || texts.length !== 2 * calls) return { kind: 'crashed', detail: 'The program wrote a reply of its own.' };
  return { kind: 'ran', calls: Array.from({ length: calls }, (_, i) => callResult(texts[2 * i]!, texts[2 * i + 1]!)) };
}

function callResult(error: string, text: string): CallResult {
  return error === '' ? { repr: text } : { error: error.slice(0, MESSAGE_LENGTH), message: text.slice(0, MESSAGE_LENGTH) };
}

export function analysisFields(code: string, { banned, bannedRule: rule, rewrites, measured }: Omit<AnalyseOptions, 'signal'>): string[] {
  return [JSON.stringify({ code, banned, rule, rewrites, measured })];
}

/** The facts that the analyst replied. Throws TimeoutError if the analyst was ended. */
export function readFacts(attempt: Attempt): CodeFacts {
  if (attempt.kind === 'ended') throw new TimeoutError(`The program cannot be analysed (${attempt.failure}): ${attempt.detail} Make it shorter.`);
  return JSON.parse(Buffer.from(attempt.fields[0]!).toString()) as CodeFacts;
}
