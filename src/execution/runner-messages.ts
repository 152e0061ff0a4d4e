/** What `python/runner.py` and `python/analyst.py` are asked and answer, as fields of frames. Their answers are untrusted: a program may have written them. */
import type { CallResult, CodeFacts, ExecutionJob, ExecutionResult } from './code-executor.ts';

/** Room for a message and the fields around it, in bytes. */
const REPLY_OVERHEAD = 2000;
const UTF8_BYTES = 4;
const MESSAGE_LENGTH = 200;

export function jobFields({ code, calls, limits }: ExecutionJob): string[] {
  return [String(limits.reprLength), code, ...calls];
}

/** The longest honest reply to a job, in bytes. */
export function replyBytes({ calls, limits }: ExecutionJob): number {
  return (1 + calls.length) * (UTF8_BYTES * limits.reprLength + REPLY_OVERHEAD);
}

/** The results of a reply. One that is none is the doing of the program. */
export function readResults(fields: readonly Uint8Array[], calls: number): ExecutionResult {
  const [status, ...texts] = fields.map((field) => Buffer.from(field).toString());
  if (status !== 'ran' || texts.length !== 2 * calls) return { kind: 'crashed', detail: 'The program wrote a reply of its own.' };
  return { kind: 'ran', calls: Array.from({ length: calls }, (_, i) => callResult(texts[2 * i]!, texts[2 * i + 1]!)) };
}

function callResult(error: string, text: string): CallResult {
  return error === '' ? { repr: text } : { error: error.slice(0, MESSAGE_LENGTH), message: text.slice(0, MESSAGE_LENGTH) };
}

export function readFacts([reply]: readonly Uint8Array[]): CodeFacts {
  return JSON.parse(Buffer.from(reply!).toString()) as CodeFacts;
}
