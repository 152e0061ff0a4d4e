/**
 * One class per boundary that can fail. A failed rollout is data: its error is recorded on the rollout, its reward is null, and it
 * leaves its group. The text of every error says what was expected, what came instead, and what to do about it.
 */
import { withoutExcerpt } from './read-json.ts';

export interface VfErrorOptions {
  readonly cause?: unknown;
  /** True when the same call may succeed later (a refused connection, 429, 5xx). @default false */
  readonly retryable?: boolean;
  /** How long the other side asked us to wait, in milliseconds (Retry-After). */
  readonly retryAfterMs?: number;
  /** HTTP status of the failed exchange, if there was one. */
  readonly status?: number;
  /** True when no later request of the run can succeed either: a wrong key, a model that is not there. @default false */
  readonly endsRun?: boolean;
}

export class VfError extends Error {
  override readonly name: string = 'VfError';
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly status: number | null;
  readonly endsRun: boolean;
  /** Set by `withRetries` where it gave up: the same call was repeated as often as it may be, so nobody above should repeat it again. */
  isRetriedOut = false;

  constructor(message: string, options: VfErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? false;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.status = options.status ?? null;
    this.endsRun = options.endsRun ?? false;
  }
}

/** A setting, flag, file or argument that cannot be used; shown to the user as one line, exit code 2. */
export class ConfigError extends VfError {
  override readonly name = 'ConfigError';
}

/** The policy server failed: refused, timed out, answered an error, or answered something that cannot be used. */
export class PolicyError extends VfError {
  override readonly name: string = 'PolicyError';
}

/** The server computed a NaN or an infinity. Its own fault, not the request's: one bad adapter can poison a whole vLLM server. */
export class NumericPolicyError extends PolicyError {
  override readonly name = 'NumericPolicyError';
}

/** The prompt does not fit the model's window. Not a failure of anyone: the rollout stops with `prompt_too_long`. */
export class PromptTooLongError extends PolicyError {
  override readonly name = 'PromptTooLongError';
}

/** The next prompt did not extend the previous one token by token: a bug of ours or of the server's, never patched over. */
export class PrefixBreakError extends PolicyError {
  override readonly name = 'PrefixBreakError';
}

/** The retriever failed after its retries. Never reported as an empty result. */
export class RetrievalError extends VfError {
  override readonly name = 'RetrievalError';
}

/** A tool of a ToolEnv failed outside the model's responsibility. */
export class ToolError extends VfError {
  override readonly name = 'ToolError';
}

/**
 * A model beside the policy (a judge, a critic) failed after its retries. Never taken for a failure of the policy, never a reward of 0.
 * Another attempt at the rollout or its rewards asks again.
 */
export class ModelError extends VfError {
  override readonly name = 'ModelError';
  /** Which of the environment's roles the model played. */
  readonly role: string;
  readonly reason: ModelFailure;

  constructor(message: string, options: VfErrorOptions & { readonly role: string; readonly reason?: ModelFailure }) {
    super(message, options);
    this.role = options.role;
    this.reason = options.reason ?? 'failed';
  }
}

/**
 * `failed`: no reply came. `malformed`: a reply came that cannot be read, twice. `budget`: the role's budget of calls or tokens is spent.
 * `not_set_up`: it was asked before the run bound the role.
 */
export type ModelFailure = 'failed' | 'malformed' | 'budget' | 'not_set_up';

/** A reward function threw or returned something that is not a finite number. */
export class RewardError extends VfError {
  override readonly name = 'RewardError';
}

/** A results file could not be written or read; the run stops, and what was recorded before stays. */
export class ResultsError extends VfError {
  override readonly name = 'ResultsError';
}

/**
 * The gradient backend failed. `lost` is set when the backend, and with it the model's state, is gone: only a new one, loaded from a checkpoint,
 * can go on.
 */
export class GradientError extends VfError {
  override readonly name = 'GradientError';
  readonly code: GradientErrorCode;

  constructor(message: string, options: VfErrorOptions & { readonly code: GradientErrorCode }) {
    super(message, options);
    this.code = options.code;
  }
}

/**
 * `out_of_memory`: a smaller batch may fit; accumulated gradients are kept. `bad_input`: refused, nothing changed. `not_finite`: the model gave NaN or an
 * infinity. `internal`: the backend's own fault. `lost`: its process is gone.
 */
export type GradientErrorCode = 'out_of_memory' | 'bad_input' | 'not_finite' | 'internal' | 'lost';

/** New weights could not be made to serve; the old ones still do. */
export class PublishError extends VfError {
  override readonly name = 'PublishError';
}

/** A training run stopped by itself: nothing left to train on, an alarm, too many failures. What was trained is in its checkpoints. */
export class TrainingError extends VfError {
  override readonly name = 'TrainingError';
  /** Failed rollouts of the batch that ended the run; no row of its metrics counts them. */
  readonly failedRollouts: number;

  constructor(message: string, { failedRollouts = 0, ...options }: VfErrorOptions & { readonly failedRollouts?: number } = {}) {
    super(message, options);
    this.failedRollouts = failedRollouts;
  }
}

/** A deadline passed. */
export class TimeoutError extends VfError {
  override readonly name = 'TimeoutError';
}

/** The user or the run asked to stop. */
export class CancelledError extends VfError {
  override readonly name = 'CancelledError';
}

/** An environment's own code failed. */
export class EnvironmentError extends VfError {
  override readonly name = 'EnvironmentError';
}

/** What failed first: what closing something throws after a failure must not hide the failure. Told by the name, for Node 22 has no SuppressedError. */
export function firstError(thrown: unknown): unknown {
  return thrown instanceof Error && thrown.name === 'SuppressedError' && 'suppressed' in thrown ? firstError(thrown.suppressed) : thrown;
}

/** What was thrown, in words; total, because anything can be thrown. */
export function thrownText(thrown: unknown): string {
  if (thrown instanceof Error) return errorMessage(thrown);
  if (typeof thrown !== 'object' || thrown === null) return String(thrown);
  try {
    return JSON.stringify(thrown) ?? Object.prototype.toString.call(thrown);
  } catch {
    // It holds itself, or a bigint.
    return Object.prototype.toString.call(thrown);
  }
}

/** The message without what a parser quotes of its text, which may be part of a secret. */
export function errorMessage(error: Error): string {
  if (error instanceof SyntaxError) return withoutExcerpt(error.message);
  // smol-toml draws the lines around the fault below its message.
  return 'codeblock' in error ? error.message.split('\n', 1)[0]! : error.message;
}

/** What was thrown and why, without class names: `fetch failed (connect ECONNREFUSED 127.0.0.1:9)`. */
export function causeText(thrown: unknown): string {
  const texts: string[] = [];
  for (let e = thrown; e !== undefined && e !== null && texts.length < 8; e = e instanceof Error ? e.cause : undefined) {
    // Several addresses of one host fail together, in an error without a message.
    const text = e instanceof AggregateError && e.message === '' ? e.errors.map(thrownText).join('; ') : thrownText(e);
    if (text !== '' && !texts.some((said) => said.includes(text))) texts.push(text);
  }
  const [first = 'nothing was said', ...causes] = texts;
  return causes.length === 0 ? first : `${first} (${causes.join('; ')})`;
}

/** The stacks of an error and its causes, outermost first; null for what is no Error. May hold secrets, as messages may. */
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

/** The chain of `name: message`, outermost first, joined by ` <- `; what is shown in place of a stack trace. */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  let e = error;
  do {
    parts.push(e instanceof Error ? `${e.name}: ${errorMessage(e)}` : thrownText(e));
    e = e instanceof Error ? e.cause : undefined;
  } while (e !== undefined && e !== null && parts.length < 8);
  return parts.join(' <- ');
}
