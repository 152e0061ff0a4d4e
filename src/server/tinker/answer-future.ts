/** Answers `retrieve_future`: a long poll, and the result in the form that the caller reads. */
import type { Context } from 'hono';
import { outputJson } from '../../tinker/wire/json-pass.ts';
import { encodeOutput } from '../../tinker/wire/protobuf-pass.ts';
import { encodeSamples, samplesJson } from '../../tinker/wire/samples.ts';
import type { FutureOutcome, Futures } from './futures.ts';

/** Clients give up after 45 seconds. */
const POLL_MS = 20_000;
const PROTOBUF = 'application/x-protobuf';

export async function answerFuture(c: Context, futures: Futures, id: string, signal: AbortSignal): Promise<Response> {
  const outcome = await futures.retrieve(id, POLL_MS, signal);
  if (outcome === null) return c.json({ type: 'try_again', request_id: id, queue_state: 'active' });
  const bytes = (c.req.header('accept') ?? '').includes(PROTOBUF) ? protobuf(outcome) : null;
  if (bytes !== null) return c.body(bytes as Uint8Array<ArrayBuffer>, 200, { 'content-type': PROTOBUF });
  return c.json(jsonOf(outcome));
}

/** Null for what has no form in protobuf. */
function protobuf(outcome: FutureOutcome): Uint8Array | null {
  if (outcome.kind === 'pass') return encodeOutput(outcome.output);
  return outcome.kind === 'samples' ? encodeSamples(outcome.samples) : null;
}

function jsonOf(outcome: FutureOutcome): object {
  if (outcome.kind === 'pass') return outputJson(outcome.output);
  if (outcome.kind === 'samples') return samplesJson(outcome.samples);
  return outcome.kind === 'failed' ? { error: outcome.error, category: outcome.category } : outcome.body;
}
