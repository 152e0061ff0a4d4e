/**
 * Waits until a server has really ended the requests for an adapter that a client abandoned. A lease ends when its caller leaves. The server notices the closed
 * connection later, and until then it may read the adapter's directory again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancelled } from '../../core/abort.ts';
import { PublishError } from '../../core/errors.ts';
import type { LoraReplica } from './lora-routes.ts';

export interface AbandonedRequests {
  /** The adapter. */
  readonly model: string;
  /** The server's name of the base model. */
  readonly baseModel: string;
  /** Milliseconds since the last of them was abandoned. */
  readonly agoMs: number;
}

/** vLLM ends a request within an engine step of the closed connection; this is far longer than a step. For servers that do not report adapters in use. */
const UNREPORTED_MS = 10_000;
const DEADLINE_MS = 60_000;
const LONGEST_PAUSE_MS = 500;

/** Throws PublishError if they have not ended after a minute. */
export async function untilEnded(replica: LoraReplica, { model, baseModel, agoMs }: AbandonedRequests, signal: AbortSignal): Promise<void> {
  const startMs = performance.now();
  for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    // Brings the figures up to date: an idle server reports the state of its last step.
    await replica.passStep(baseModel, signal);
    const inUse = await replica.adaptersInUse(signal);
    if (inUse === null) return await pause(UNREPORTED_MS - agoMs, signal);
    // The engine handles messages in order: after this step it has dropped the requests that were aborted before.
    if (!inUse.has(model)) return await replica.passStep(baseModel, signal);
    if (performance.now() - startMs > DEADLINE_MS)
      throw new PublishError(`${replica.url} still computes a request for ${model} that was abandoned ${Math.round(DEADLINE_MS / 1000)} s ago`);
    await pause(pauseMs, signal);
  }
}

async function pause(forMs: number, signal: AbortSignal): Promise<void> {
  await sleep(Math.max(0, forMs), undefined, { signal }).catch(() => {
    throw cancelled(signal, 'Stopped while waiting for abandoned requests');
  });
}
