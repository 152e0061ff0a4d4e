/** The steps of every executor around one attempt at a job: arguments evaluated apart, a second attempt after a crash, call by call after a bad end. */
import { Limiter } from '../core/limiter.ts';
import type { Attempt, RunMode } from './attempt.ts';
import type { CallResult, ExecutionJob, ExecutionResult } from './code-executor.ts';
import { assertUsableJob } from './check-job.ts';
import { parseLiteral } from './literals/parse-literal.ts';
import { mergeCalls, ran } from './merge-calls.ts';
import { readReply } from './runner-messages.ts';

/** Tries a job once, when a worker is free. */
export type Try = (job: ExecutionJob, mode: RunMode) => Promise<Attempt>;

type Apart = { readonly kind: 'apart'; readonly calls: readonly number[] };
type Outcome = ExecutionResult | Apart | { readonly kind: 'single' };

/** Evaluates to its own arguments. */
const ARGUMENTS = 'def f(*args, **named): return args, named';

/**
 * Throws ConfigError for limits or a seed that are out of range.
 * @param mode of the first attempt
 */
export async function runJob(job: ExecutionJob, mode: 'shared' | 'own', attempt: Try): Promise<ExecutionResult> {
  assertUsableJob(job);
  if (!job.code.isWellFormed()) return ran(job.calls.map(() => NO_UTF8));
  const broken = job.calls.map((call) => (call.isWellFormed() ? null : NO_UTF8));
  return mergeCalls(broken, job, (rest) => runApart(rest, mode, attempt));
}

/**
 * Arguments that might do more than be values are evaluated without the program, and the program receives their value: otherwise an answer could change the program
 * that judges it.
 */
async function runApart(job: ExecutionJob, mode: 'shared' | 'own', attempt: Try): Promise<ExecutionResult> {
  const first = await tryAll(job, mode, attempt);
  if (first.kind !== 'apart') return first;
  const apart = new Set(first.calls);
  const values = await inTurns(job.calls, (call, i) => (apart.has(i) ? evaluate({ ...job, calls: [call] }, attempt) : Promise.resolve({ call })));
  const errors = values.map((value) => ('call' in value ? null : value));
  const calls = values.map((value, i) => ('call' in value ? value.call : job.calls[i]!));
  return mergeCalls(errors, { ...job, calls }, async (rest) => {
    const second = await tryAll(rest, mode, attempt);
    if (second.kind !== 'apart') return second;
    const noLiterals = new Set(second.calls);
    return mergeCalls(
      rest.calls.map((_, i) => (noLiterals.has(i) ? NO_LITERAL : null)),
      rest,
      async (literal) => expectRun(await tryAll(literal, mode, attempt)),
    );
  });
}

/** The arguments of one call as literals, or the error of their evaluation. */
async function evaluate(job: ExecutionJob, attempt: Try): Promise<{ readonly call: string } | CallResult> {
  const outcome = await tryTwice({ ...job, code: ARGUMENTS }, 'apart', attempt);
  if (outcome.kind === 'apart' || outcome.kind === 'single') return NO_LITERAL;
  if (outcome.kind !== 'ran') return { error: outcome.kind, message: outcome.detail };
  const result = outcome.calls[0]!;
  if (!('repr' in result)) return result;
  const { repr } = result;
  return parseLiteral(repr, { maxLength: repr.length }).ok ? { call: `*(${repr})[0], **(${repr})[1]` } : NO_LITERAL;
}

/**
 * Runs all calls together. Runs them call by call after a bad end, so that no call loses its result because of another, and if a program could pass something on
 * from one call to the next: a counter would reveal which answer is judged.
 */
async function tryAll(job: ExecutionJob, mode: 'shared' | 'own', attempt: Try): Promise<ExecutionResult | Apart> {
  const outcome = await tryTwice(job, mode, attempt);
  if (outcome.kind === 'ran' || outcome.kind === 'apart') return outcome;
  return outcome.kind === 'single' || job.calls.length > 1 ? callByCall(job, mode, attempt) : outcome;
}

async function callByCall(job: ExecutionJob, mode: 'shared' | 'own', attempt: Try): Promise<ExecutionResult> {
  const results = await inTurns(job.calls, (call) => runApart({ ...job, calls: [call] }, mode, attempt));
  const [first] = results;
  // If each call ends in the same way, the cause is the program or its top-level code.
  if (first!.kind !== 'ran' && results.every(({ kind }) => kind === first!.kind)) return first!;
  return ran(results.map((result) => (result.kind === 'ran' ? result.calls[0]! : { error: result.kind, message: result.detail })));
}

/** Attempts of one job that run or wait for a worker: others of the same executor take their turns between them, however many calls a job has. */
const MOST_AT_ONCE = 2;

function inTurns<T, R>(items: readonly T[], run: (item: T, index: number) => Promise<R>): Promise<readonly R[]> {
  const turns = new Limiter(MOST_AT_ONCE);
  const never = new AbortController().signal;
  return Promise.all(items.map((item, i) => turns.run(() => run(item, i), never)));
}

/** A crash may be the worker's fault. After a second one the program counts as the cause. */
async function tryTwice(job: ExecutionJob, mode: RunMode, attempt: Try): Promise<Outcome> {
  const first = await tryOnce(job, mode, attempt);
  return first.kind === 'crashed' ? tryOnce(job, mode, attempt) : first;
}

async function tryOnce(job: ExecutionJob, mode: RunMode, attempt: Try): Promise<Outcome> {
  const made = await attempt(job, mode);
  return made.kind === 'ended' ? { kind: made.failure, detail: made.detail } : readReply(made.fields, job.calls.length);
}

const expectRun = (outcome: ExecutionResult | Apart): ExecutionResult =>
  outcome.kind === 'apart' ? { kind: 'crashed', detail: 'The interpreter did not evaluate the arguments.' } : outcome;

const NO_UTF8: CallResult = { error: 'UnicodeEncodeError', message: 'surrogates not allowed' };
const NO_LITERAL: CallResult = { error: 'ValueError', message: 'the arguments have no literal repr' };
