import { eitherSignal } from '../core/abort.ts';
import { ConfigError, TimeoutError } from '../core/errors.ts';
import type { Model, ModelReply, ModelRequest } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import { isTokenCount } from '../core/sampling.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { withRetries } from '../transport/retry.ts';
import { timerMs } from '../core/timers.ts';
import { modelFailure } from './model-failure.ts';
import type { TimedModel } from './timed-model.ts';

export interface RetriedOptions {
  readonly role: string;
  /** Deadline of one attempt; `Infinity` leaves it to the model. */
  readonly timeoutMs: number;
  /** Deadline of all attempts together. @default Infinity */
  readonly totalTimeoutMs?: number;
  /** Attempts after the first, for transient failures. */
  readonly maxRetries: number;
  /** Delay before the first retry; doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Source of the jitter. */
  readonly random: Random;
}

export interface CountedReply extends ModelReply {
  /** Number of requests that were sent for the reply. @default 1 */
  readonly requests?: number;
}

/** Retries transient failures, so that no rollout has to be played again for them. Throws ModelError or CancelledError. */
export function retried(model: Model, { role, totalTimeoutMs = Infinity, ...options }: RetriedOptions): TimedModel {
  return {
    name: model.name,
    async generate(messages, request) {
      const startedMs = performance.now();
      let failed = 0;
      const attempt = async (signal: AbortSignal): Promise<CountedReply> => {
        const reply: CountedReply = await model.generate(messages, { ...request, signal });
        const problem = replyProblem(reply);
        if (problem !== null) throw new ConfigError(`its reply must be ${REPLY}; ${problem}`);
        return reply;
      };
      using deadline = totalDeadline(totalTimeoutMs, request);
      try {
        const { requests = 1, ...reply } = await withRetries(attempt, {
          ...options,
          signal: deadline.signal,
          onRetry: () => {
            failed += 1;
          },
        });
        return { ...reply, ms: performance.now() - startedMs, waitMs: 0, attempts: failed + requests };
      } catch (thrown) {
        const error = deadline.passed() ?? thrown;
        throw modelFailure(error, { role, model: model.name, tried: failed + 1, signal: request.signal });
      }
    },
  };
}

const REPLY =
  '{ text, usage: { promptTokens, completionTokens, cachedTokens }, finish: "stop" or "length", version: null }, the counts as whole numbers';

/** No compiler has checked a model of an environment. */
function replyProblem(reply: unknown): string | null {
  const { text, usage, finish } = fieldsOf(reply);
  if (typeof text !== 'string') return `text is ${kindOrNumber(text)}`;
  const { promptTokens, completionTokens, cachedTokens = null } = fieldsOf(usage);
  const wrong = Object.entries({ promptTokens, completionTokens, cachedTokens: cachedTokens ?? 0 }).find(([, count]) => !isTokenCount(count));
  if (wrong !== undefined) return `usage.${wrong[0]} is ${kindOrNumber(wrong[1])}`;
  return finish === 'stop' || finish === 'length' ? null : `finish is ${JSON.stringify(finish) ?? 'undefined'}`;
}

/** Aborts with the caller's signal, and once the time for all attempts is over. */
function totalDeadline(timeoutMs: number, { signal }: Pick<ModelRequest, 'signal'>) {
  const late = new AbortController();
  const tooLate = () => late.abort(new TimeoutError(`There was no answer within ${timeoutMs / 1000} s, retries included. Raise total_timeout_s.`));
  const timer = timeoutMs === Infinity ? undefined : setTimeout(tooLate, timerMs(timeoutMs));
  const either = eitherSignal(signal, late.signal);
  return {
    signal: either.signal,
    /** The error of the deadline, if it has passed and the caller still waits. */
    passed: (): unknown => (late.signal.aborted && !signal.aborted ? late.signal.reason : undefined),
    [Symbol.dispose]() {
      clearTimeout(timer);
      either[Symbol.dispose]();
    },
  };
}
