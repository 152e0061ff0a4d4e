import type { Model, ModelReply } from '../core/model.ts';
import type { Random } from '../core/random.ts';
import { withRetries } from '../transport/retry.ts';
import { modelFailure } from './model-failure.ts';
import type { TimedModel } from './timed-model.ts';

export interface RetriedOptions {
  readonly role: string;
  /** Deadline of one attempt; `Infinity` leaves it to the model. */
  readonly timeoutMs: number;
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
export function retried(model: Model, { role, ...options }: RetriedOptions): TimedModel {
  return {
    name: model.name,
    async generate(messages, request) {
      const startedMs = performance.now();
      let failed = 0;
      const attempt = (signal: AbortSignal): Promise<CountedReply> => model.generate(messages, { ...request, signal });
      try {
        const { requests = 1, ...reply } = await withRetries(attempt, {
          ...options,
          signal: request.signal,
          onRetry: () => {
            failed += 1;
          },
        });
        return { ...reply, ms: performance.now() - startedMs, waitMs: 0, attempts: failed + requests };
      } catch (error) {
        throw modelFailure(error, { role, model: model.name, tried: failed + 1, signal: request.signal });
      }
    },
  };
}
