/** Waits for what a training service computes: long polls, back-pressure, results that expired before they were fetched. */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancelled } from '../../core/abort.ts';
import { TimeoutError, type VfError } from '../../core/errors.ts';
import type { HttpResponse } from '../../transport/http-endpoint.ts';
import { futureSchema, pendingSchema } from '../../schemas/tinker/answers.ts';
import { isProtobuf, readAnswer, type ServiceConnection } from './service-connection.ts';
import { TinkerError } from './tinker-error.ts';

/** Longer than the long polls of every known server but SkyRL's of 300 s, which may be repeated. */
const POLL_MS = 45_000;
const LEAST_PAUSE_MS = 20;
const MOST_PAUSE_MS = 1000;
const QUEUES: Readonly<Record<string, string>> = {
  paused_capacity: 'The training service is at its capacity; the run waits',
  paused_rate_limit: 'The training service holds this account back for its rate limit; the run waits',
};

export interface AwaitedResult {
  /** The route that was submitted, for errors. */
  readonly route: string;
  /** Submits the request, again after its result has expired; resolves with the answer that names the future. */
  readonly submit: () => Promise<HttpResponse>;
  /** @default `submit` is called */
  readonly submitted?: HttpResponse;
  readonly signal: AbortSignal;
}

/** Resolves with the result. Rejects with TinkerError; `isGone` if the service does not know the request any more, or what it was about. */
export async function awaitResult(connection: ServiceConnection, { route, submit, submitted, signal }: AwaitedResult): Promise<HttpResponse> {
  const sinceMs = performance.now();
  let requestId = readAnswer(futureSchema, submitted ?? (await submit())).request_id;
  let told: string | null = null;
  for (let pauseMs = LEAST_PAUSE_MS; ;) {
    const askedMs = performance.now();
    const answer = await poll(connection, requestId, signal);
    if (answer === 'expired') requestId = readAnswer(futureSchema, await submit()).request_id;
    else if (answer !== 'again') {
      if (isProtobuf(answer)) return answer;
      const state = readAnswer(pendingSchema, answer);
      if (typeof state.error === 'string') throw failure(route, state.error, state.category ?? 'unknown');
      if (state.type !== 'try_again' && state.status !== 'complete_metadata') return answer;
      const queue = QUEUES[state.queue_state ?? ''];
      if (queue !== undefined && queue !== told) connection.notice((told = queue));
    }
    if (performance.now() - sinceMs > connection.resultMs)
      throw new TinkerError(
        `${route} at ${connection.url} had no result within ${Math.round(connection.resultMs / 1000)} s; raise ${connection.resultSetting}, or look whether the service is overloaded`,
      );
    // A server that does not hold polls back would otherwise be asked without a pause.
    if (performance.now() - askedMs > pauseMs) continue;
    await sleep(pauseMs, undefined, { signal }).catch(() => {
      throw cancelled(signal);
    });
    pauseMs = Math.min(MOST_PAUSE_MS, pauseMs * 1.5);
  }
}

async function poll(connection: ServiceConnection, requestId: string, signal: AbortSignal): Promise<HttpResponse | 'again' | 'expired'> {
  try {
    const body = { request_id: requestId, allow_metadata_only: false };
    const mayRetry = (error: VfError) => error.status !== 408 && !(error instanceof TimeoutError);
    return await connection.request({ route: 'retrieve_future', body, timeoutMs: POLL_MS, mayRetry, signal });
  } catch (error) {
    if (error instanceof TimeoutError) return 'again';
    if (!(error instanceof TinkerError)) throw error;
    if (error.status === 408) return 'again';
    if (error.status === 410) return 'expired';
    throw goneAt(error);
  }
}

/** The error as one of something that the service does not know any more, if its status says so. */
export function goneAt(error: TinkerError): TinkerError {
  if (error.status !== 404 && error.status !== 410) return error;
  return new TinkerError(error.message, { cause: error, status: error.status, isGone: true });
}

/** What the service says about a request that failed there. */
function failure(route: string, message: string, category: string): TinkerError {
  const isGone = /not found|unknown model|does not exist|no longer/i.test(message);
  return new TinkerError(`${route} failed at the training service: ${message}`, { status: category === 'user' ? 400 : 500, isGone });
}
