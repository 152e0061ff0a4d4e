/** Answers the requests of a session: reads a body within limits, asks the policy, and writes the answer at once or as a stream. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import type { ReadableStream as WebStream } from 'node:stream/web';
import { AgentRefusal } from '../../agents/agent-refusal.ts';
import type { Dialect } from '../../agents/dialects/dialect.ts';
import { eitherSignal } from '../../core/abort.ts';
import { type BodyBudget, NOT_UTF8 } from '../bounded-body.ts';
import { isJson, type WithHeaders } from '../door.ts';
import { incomingBody } from '../incoming-body.ts';
import { sendJson, sendText } from '../send-text.ts';
import { answerStream, EVENT_HEADERS } from './answer-stream.ts';
import type { OpenSession } from './open-session.ts';

export interface Call extends WithHeaders {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly session: OpenSession;
  /** Of the connection. */
  readonly signal: AbortSignal;
  readonly budget: BodyBudget;
  /** Reports a failure of the gateway itself and words it for the agent; a refusal stays as it is. */
  readonly refusalOf: (error: unknown) => AgentRefusal;
}

const GONE = new AgentRefusal(400, null, 'The client disconnected.');

/** Throws AgentRefusal. */
export async function answer(call: Call, dialect: Dialect): Promise<void> {
  const { response, session, signal } = call;
  const { body, characters, request } = await requestOf(call, dialect);
  const head = { id: randomUUID().replaceAll('-', ''), created: Math.floor(Date.now() / 1000), model: request.model || session.model };
  const headers = { 'x-request-id': head.id };
  // Only Responses names answers again.
  const keep = (given: object) => {
    if (dialect.name === 'responses') session.responses.keep(body, given as Readonly<Record<string, unknown>>, characters);
  };
  if (!request.isStreamed) {
    const given = dialect.answer(head, request, await session.ask(request, signal));
    keep(given);
    return sendJson(response, 200, given, headers);
  }
  const left = new AbortController();
  const either = eitherSignal(signal, left.signal);
  const stream = await answerStream({
    asked: session.ask(request, either.signal).finally(() => either[Symbol.dispose]()),
    opening: (turns) => dialect.opening(head, request, turns),
    events: (turns) => {
      const events = dialect.events(head, request, turns);
      if (dialect.name === 'responses') keep(dialect.answer(head, request, turns));
      return events;
    },
    failure: (error) => dialect.failure(head, request, call.refusalOf(error)),
    keepAlive: dialect.keepAlive,
    onLeave: () => left.abort(GONE),
  });
  if (typeof stream === 'string') return sendText(response, 200, stream, { ...headers, ...EVENT_HEADERS });
  response.writeHead(200, { ...headers, ...EVENT_HEADERS }).flushHeaders();
  // It ends where the client leaves, and cannot fail by itself.
  pipeline(Readable.fromWeb(stream as WebStream), response, () => {});
}

/** Throws AgentRefusal. */
export async function answerCount(call: Call, dialect: Dialect): Promise<void> {
  const { response, session, signal } = call;
  const { request } = await requestOf(call, dialect);
  const tokens = await session.count(request, signal);
  sendJson(response, 200, { ...(dialect.name === 'responses' ? { object: 'response.input_tokens' } : {}), input_tokens: tokens });
}

/** The rollout hears of a request that cannot be read. */
async function requestOf(call: Call, dialect: Dialect) {
  const { session } = call;
  try {
    const { value: body, characters } = await bodyOf(call);
    return { body, characters, request: dialect.read(body, session.responses) };
  } catch (error) {
    throw session.refused(error);
  }
}

async function bodyOf({ request, headers, session, budget }: Call): Promise<{ readonly value: unknown; readonly characters: number }> {
  if (!isJson({ headers }))
    throw new AgentRefusal(415, null, 'The content-type of the body is not JSON. Send the header content-type: application/json.');
  const encoding = headers.get('content-encoding') ?? 'identity';
  // The bytes count as held until they are values; a turn may take minutes.
  return budget.withBytes(incomingBody(request), async (body) => {
    if (encoding !== 'identity') throw new AgentRefusal(400, null, 'The body is compressed (content-encoding). Send it as it is.');
    if (!body.ok) throw new AgentRefusal(body.status === 422 ? 400 : body.status, null, `${body.detail}.`);
    try {
      return { value: session.bodies.read(body.bytes), characters: body.bytes.length };
    } catch (error) {
      if (error instanceof RangeError) throw new AgentRefusal(400, null, `The body ${error.message}; send less at a time.`);
      throw new AgentRefusal(400, null, error instanceof SyntaxError ? `The body is not JSON: ${error.message}.` : `${NOT_UTF8}.`);
    }
  });
}
