/**
 * One class per boundary that can fail. A failed rollout is data: its error is recorded on the rollout, its reward is null, and it is left out of its
 * group. Every message says what happened, with the value, and then what to do.
 */
import type { NewRun } from './new-run.ts';
import { withoutExcerpt } from './read-json.ts';

export interface VfErrorOptions {
  readonly cause?: unknown;
  /** The same call may succeed later (a refused connection, 429, 5xx). @default false */
  readonly retryable?: boolean;
  /** The wait that the server requested with Retry-After, in milliseconds. @default none */
  readonly retryAfterMs?: number;
  /** HTTP status of the failed request. @default none */
  readonly status?: number;
  /** No later request of the run can succeed either: a wrong key, an unknown model. @default false */
  readonly endsRun?: boolean;
  /** The user's code returned what it must not, so that every further attempt fails in the same way. @default false */
  readonly isOfCode?: boolean;
}

const BRAND = Symbol.for('vf-search.error');

/**
 * Base class of all errors of this package.
 * @example await evaluate(options).catch((error) => (error instanceof VfError && error.retryable ? evaluate(options) : Promise.reject(error)));
 */
export class VfError extends Error {
  override readonly name: string = 'VfError';
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly status: number | null;
  readonly endsRun: boolean;
  /** True if the user's code returned what it must not: every further attempt would too. */
  readonly isOfCode: boolean;
  /** Set by `withRetries` when no retry is left, so that its callers do not retry again. */
  isRetriedOut = false;
  /** Marks an error of any copy of this package. */
  readonly [BRAND] = true;

  constructor(message: string, options: VfErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.status = options.status ?? null;
    this.endsRun = options.endsRun ?? false;
    this.isOfCode = options.isOfCode ?? false;
  }

  /** `instanceof` also recognises the error of another copy of this package, which an environment may have loaded: by the name of its class. */
  static override [Symbol.hasInstance](thrown: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, thrown)) return true;
    if (!(thrown instanceof Error) || !(BRAND in thrown)) return false;
    for (let kind: unknown = thrown.constructor; typeof kind === 'function'; kind = Object.getPrototypeOf(kind))
      if (kind.name === this.name) return true;
    return false;
  }
}

/** A setting, flag, file or argument cannot be used. Shown to the user as one line, exit code 2. */
export class ConfigError extends VfError {
  override readonly name = 'ConfigError';
}

/** The policy server failed: it was unreachable, returned an error, or returned something unusable. */
export class PolicyError extends VfError {
  override readonly name: string = 'PolicyError';
}

/** The policy server refused the API key, or wants one. Recorded as its base class. */
export class PolicyKeyError extends PolicyError {}

/** The server computed NaN or an infinity. One bad adapter can break a whole vLLM server, so the request need not be at fault. */
export class NumericPolicyError extends PolicyError {
  override readonly name = 'NumericPolicyError';
}

/** The prompt does not fit the model's window. Once the policy has written a turn, this is not a failure: the rollout stops with `prompt_too_long`. */
export class PromptTooLongError extends PolicyError {
  override readonly name = 'PromptTooLongError';
}

/** The prompt leaves no room for the policy's first token, so nothing is played and the rollout has no reward, which is not a reward of 0. A retry would end in the same way. */
export class UnplayedError extends VfError {
  override readonly name = 'UnplayedError';
}

/** A prompt did not extend the previous one token by token: a bug in this package or in the server. */
export class PrefixBreakError extends PolicyError {
  override readonly name = 'PrefixBreakError';
}

/** The retriever failed after its retries. Never reported as an empty result. */
export class RetrievalError extends VfError {
  override readonly name = 'RetrievalError';
}

/** A tool of a ToolEnv threw one of its `stopErrors`: a failure that is not the policy's fault. */
export class ToolError extends VfError {
  override readonly name = 'ToolError';
}

/**
 * A model other than the policy (a judge, a critic) failed after its retries. Never counted as a failure of the policy or as a reward of 0. A further
 * attempt at the rollout or its rewards calls it again.
 */
export class ModelError extends VfError {
  override readonly name = 'ModelError';
  /** The role of the environment that the model played. */
  readonly role: string;
  readonly reason: ModelFailure;

  constructor(message: string, options: VfErrorOptions & { readonly role: string; readonly reason?: ModelFailure }) {
    super(message, options);
    this.role = options.role;
    this.reason = options.reason ?? 'failed';
  }
}

/**
 * `failed`: no reply. `malformed`: two replies in a row could not be parsed. `budget`: the role's budget of calls or tokens is spent.
 * `not_set_up`: the model was called before the run bound the role.
 */
export type ModelFailure = 'failed' | 'malformed' | 'budget' | 'not_set_up';

/** A reward function threw or returned something that is not a finite number. */
export class RewardError extends VfError {
  override readonly name = 'RewardError';
}

/** A results file could not be written or read. The run stops; earlier records are kept. */
export class ResultsError extends VfError {
  override readonly name = 'ResultsError';
}

/**
 * The gradient backend failed. With the code `lost`, the backend and its model state are gone, and only a new backend loaded from a checkpoint can
 * continue.
 */
export class GradientError extends VfError {
  override readonly name = 'GradientError';
  readonly code: GradientErrorCode;
  /** The backend is `lost` because memory ran out in a place that cannot be undone. A new backend needs smaller batches. */
  readonly needsSmallerBatches: boolean;

  constructor(message: string, options: VfErrorOptions & { readonly code: GradientErrorCode; readonly needsSmallerBatches?: boolean }) {
    super(message, options);
    this.code = options.code;
    this.needsSmallerBatches = options.needsSmallerBatches ?? false;
  }
}

/**
 * `out_of_memory`: a smaller batch may fit; accumulated gradients are kept. `bad_input`: rejected, nothing changed. `not_finite`: the model computed NaN
 * or an infinity. `internal`: a bug in the backend. `lost`: its process has ended.
 */
export type GradientErrorCode = 'out_of_memory' | 'bad_input' | 'not_finite' | 'internal' | 'lost';

/** New weights could not be published; the old ones continue to serve. */
export class PublishError extends VfError {
  override readonly name = 'PublishError';
}

/** A training run had to stop: nothing left to train on, an alarm, too many failures. Its checkpoints contain the training so far. */
export class TrainingError extends VfError {
  override readonly name = 'TrainingError';
  /** Failed rollouts of the batch that ended the run, which are in no row of its metrics. */
  readonly failedRollouts: number;
  /** The flags with which `-R` helps; empty if it needs none, null if it would end the same way. */
  readonly resumeFlags: readonly string[] | null;
  /** What the user must correct before `-R` helps, such as the path of a module; null if it is nothing that a name says. */
  readonly correct: string | null;
  /** Helps where `-R` does not; null if no settings are known that do. */
  readonly newRun: NewRun | null;

  constructor(message: string, options: VfErrorOptions & Partial<Omit<TrainingError, keyof VfError>> = {}) {
    super(message, options);
    this.failedRollouts = options.failedRollouts ?? 0;
    this.resumeFlags = options.resumeFlags === undefined ? [] : options.resumeFlags;
    this.correct = options.correct ?? null;
    this.newRun = options.newRun ?? null;
  }
}

/** No sandbox could be started, so programs cannot be run. Never a verdict about a program. */
export class ExecutionError extends VfError {
  override readonly name = 'ExecutionError';
  /** A command or an instruction that makes the sandbox start; null if none is known. */
  readonly remedy: string | null;

  constructor(message: string, { remedy = null, ...options }: VfErrorOptions & { readonly remedy?: string | null } = {}) {
    super(message, options);
    this.remedy = remedy;
  }
}

/** A deadline passed. */
export class TimeoutError extends VfError {
  override readonly name = 'TimeoutError';
}

/** The user or the run cancelled the operation. */
export class CancelledError extends VfError {
  override readonly name = 'CancelledError';
}

/** An environment's own code threw. */
export class EnvironmentError extends VfError {
  override readonly name = 'EnvironmentError';
}

/** Unwraps a SuppressedError to the original failure, so that an error on disposal does not hide it. Matched by name because Node 22 lacks the class. */
export function firstError(thrown: unknown): unknown {
  return thrown instanceof Error && thrown.name === 'SuppressedError' && 'suppressed' in thrown ? firstError(thrown.suppressed) : thrown;
}

/** The message of anything that was thrown. Never throws. */
export function thrownText(thrown: unknown): string {
  if (thrown instanceof Error) return errorMessage(thrown);
  if (typeof thrown !== 'object' || thrown === null) return String(thrown);
  try {
    return JSON.stringify(thrown) ?? Object.prototype.toString.call(thrown);
  } catch {
    // It is circular, or contains a bigint.
    return Object.prototype.toString.call(thrown);
  }
}

/** What a library threw at a file of a stranger, in one line: its own mistakes in words that a reader understands, and no long quotation of the file. */
export function libraryText(thrown: unknown): string {
  if (thrown instanceof RangeError && thrown.message.includes('call stack')) return 'it is nested too deeply';
  if (thrown instanceof TypeError) return 'a part of it is missing or of the wrong type';
  const text = thrownText(thrown).replaceAll(/\s+/g, ' ');
  return text.length > MOST_QUOTED ? `${text.slice(0, MOST_QUOTED)}…` : text;
}

/** UTF-16 units. */
const MOST_QUOTED = 500;

/** The message without the parser's excerpt of its input, which may contain a secret. */
export function errorMessage(error: Error): string {
  if (error instanceof SyntaxError) return withoutExcerpt(error.message);
  // smol-toml appends the lines around the error to its message.
  return 'codeblock' in error ? error.message.split('\n', 1)[0]! : error.message;
}

/** The message of an error and its causes, without class names: `fetch failed (connect ECONNREFUSED 127.0.0.1:9)`. */
export function causeText(thrown: unknown): string {
  const texts: string[] = [];
  for (let e = thrown; e !== undefined && e !== null && texts.length < 8; e = e instanceof Error ? e.cause : undefined) {
    // If all addresses of a host fail, Node throws an AggregateError with an empty message.
    const text = e instanceof AggregateError && e.message === '' ? e.errors.map(thrownText).join('; ') : thrownText(e);
    if (text !== '' && !texts.some((earlier) => earlier.includes(text))) texts.push(text);
  }
  const [first = 'no message', ...causes] = texts;
  return causes.length === 0 ? first : `${first} (${causes.join('; ')})`;
}

/** The stacks of an error and its causes, outermost first; null if it is not an Error. May contain secrets, as messages may. */
export function stackTrace(error: unknown): string | null {
  const parts: string[] = [];
  for (let e = error; e instanceof Error && parts.length < 8; e = e.cause) {
    const { stack = `${e.name}: ${e.message}` } = e;
    const message = errorMessage(e);
    // The stack repeats the message, excerpts included.
    parts.push(stack.replace(e.message, () => message));
  }
  return parts.length === 0 ? null : parts.join('\ncaused by ');
}

/** `name: message` of an error and its causes, outermost first, joined by ` <- `. Shown instead of a stack trace. */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  let e = error;
  do {
    const text = e instanceof Error ? errorMessage(e) : thrownText(e);
    // The message of an error often quotes its cause.
    if (!parts.some((earlier) => earlier.includes(text))) parts.push(e instanceof Error ? `${e.name}: ${text}` : text);
    e = e instanceof Error ? e.cause : undefined;
  } while (e !== undefined && e !== null && parts.length < 8);
  return parts.join(' <- ');
}
