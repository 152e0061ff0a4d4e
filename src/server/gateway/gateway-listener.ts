/**
 * The routes of the gateway, below `/s/ID/v1` of a session or, for a tool that takes no path, `/v1` with its key: what clients of OpenAI and Anthropic ask for. A client that adds
 * `/v1` itself, or leaves it out, is answered too. It answers Node's requests without the Request and Response of the web, which would cost as much as everything else.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AgentRefusal, GATEWAY_HEADER } from '../../agents/agent-refusal.ts';
import { chatDialect } from '../../agents/dialects/chat.ts';
import type { Dialect } from '../../agents/dialects/dialect.ts';
import { messagesDialect } from '../../agents/dialects/messages.ts';
import { responsesDialect } from '../../agents/dialects/responses.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS } from '../bounded-body.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { readRest } from '../incoming-body.ts';
import { sendJson } from '../send-text.ts';
import { answer, answerCount, type Call } from './answer-routes.ts';
import type { OpenSession } from './open-session.ts';
import type { OpenSessions } from './open-sessions.ts';

export interface GatewayListenerOptions {
  readonly sessions: OpenSessions;
  /** The address that the app listens on. */
  readonly host: string;
  /** @default 32 MiB: a window of a million tokens is about 4 MB */
  readonly maxBodyBytes?: number;
  /** Answers requests that are none of an agent's; false leaves a request to the agents' routes. @default none */
  readonly first?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Called for every failure of the gateway itself. */
  readonly onFailure: (error: unknown) => void;
}

/** Bodies of the largest size that are read at a time. */
const BODIES_HELD = 8;
const DIALECTS: Readonly<Record<string, Dialect>> = { 'chat/completions': chatDialect, responses: responsesDialect, messages: messagesDialect };
const COUNTED: Readonly<Record<string, Dialect>> = { 'messages/count_tokens': messagesDialect, 'responses/input_tokens': responsesDialect };
const PATH = /^(?:\/s\/([A-Za-z0-9_-]{1,64}))?(?:\/v1){0,2}(?:\/(.*))?$/;

export function gatewayListener(options: GatewayListenerOptions): (request: IncomingMessage, response: ServerResponse) => void {
  const { sessions, host, maxBodyBytes = 32 * 2 ** 20, first, onFailure } = options;
  const namesThisServer = hostCheck(host);
  const budget = new BodyBudget({ maxBodyBytes, maxTotalBytes: BODIES_HELD * maxBodyBytes, bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS });
  const refusalOf = (error: unknown, signal: AbortSignal): AgentRefusal => {
    if (error instanceof AgentRefusal) return error;
    // What a client that has left makes of a request is no failure.
    if (!signal.aborted) onFailure(error);
    return new AgentRefusal(500, null, 'The gateway failed while it answered this request. The output of its process says why.');
  };
  const answered = async (request: IncomingMessage, response: ServerResponse) => {
    const signal = whileConnected(request, response);
    const headers = headersOf(request);
    try {
      if (!namesThisServer({ headers })) throw new AgentRefusal(403, null, WRONG_HOST);
      const path = pathOf(request);
      const parts = PATH.exec(path);
      if (parts === null) throw noRoute(path);
      const [, id = null, route = ''] = parts;
      const session = sessions.find(id, headers);
      await answerRoute({ request, response, headers, session, signal, budget, refusalOf: (error) => refusalOf(error, signal) }, route);
    } catch (error) {
      refuse(request, response, refusalOf(error, signal));
    }
  };
  return (request, response) => {
    if (first?.(request, response) !== true) void answered(request, response);
  };
}

/** The path of a request, also of one that names the whole URL, as to a proxy. */
export function pathOf({ url = '/' }: IncomingMessage): string {
  return url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1)[0]!;
}

function headersOf({ headers }: IncomingMessage): Call['headers'] {
  return {
    get: (name) => {
      const value = headers[name];
      return typeof value === 'string' ? value : null;
    },
  };
}

/** Aborts if the client disconnects before its answer is written. */
function whileConnected(request: IncomingMessage, response: ServerResponse): AbortSignal {
  const left = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) left.abort(new Error('The client disconnected.'));
    readRest(request);
  });
  return left.signal;
}

function noRoute(path: string): AgentRefusal {
  return new AgentRefusal(
    404,
    null,
    `The gateway has no ${JSON.stringify(path.slice(0, 100))}. It answers POST chat/completions, responses, responses/input_tokens, messages and messages/count_tokens, and GET models and responses/ID.`,
  );
}

async function answerRoute(call: Call, route: string): Promise<void> {
  const { request, response, session } = call;
  const { method = 'GET' } = request;
  const dialect = Object.hasOwn(DIALECTS, route) ? DIALECTS[route]! : null;
  const counted = Object.hasOwn(COUNTED, route) ? COUNTED[route]! : null;
  const isPosted = dialect !== null || counted !== null;
  const allow = isPosted ? 'POST, OPTIONS' : 'GET, HEAD, OPTIONS';
  if (!isPosted && !isListed(route)) {
    const refusal = noRoute(pathOf(request));
    // A look at another path, such as for the server's version, asks nothing of the policy.
    if (method === 'POST') session.refused(refusal);
    throw refusal;
  }
  if (method === 'OPTIONS') return void response.writeHead(204, { allow }).end();
  if (!allow.split(', ').includes(method)) {
    response.setHeader('allow', allow);
    throw session.refused(new AgentRefusal(405, null, `This path takes ${allow}, not ${method}.`));
  }
  if (dialect !== null) return answer(call, dialect);
  if (counted !== null) return answerCount(call, counted);
  sendJson(response, 200, listed(session, route));
}

/** The base itself is what some clients look at to find out whether they are connected. */
function isListed(route: string): boolean {
  return route === '' || route === 'models' || /^(models|responses)\/[^/]+$/.test(route);
}

function listed({ model, created, responses }: OpenSession, route: string): object {
  if (route === '') return { status: 'ok' };
  const policy = { id: model, object: 'model', type: 'model', display_name: model, created, created_at: isoTime(created), owned_by: 'vf-search' };
  if (route === 'models') return { object: 'list', data: [policy], has_more: false, first_id: model, last_id: model };
  const [kind, name] = route.split('/', 2) as [string, string];
  if (kind === 'responses') return responses.answer(name) ?? refuseUnknown('response_id', 'The session keeps no answer with this id.');
  return name === model || name === encodeURIComponent(model) ? policy : refuseUnknown('model', `The session has one model, ${model}.`);
}

function refuseUnknown(param: string, message: string): never {
  throw new AgentRefusal(404, param, message);
}

function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** In the form of the dialect that the path or the headers tell. */
function refuse(request: IncomingMessage, response: ServerResponse, refusal: AgentRefusal): void {
  // The client has disconnected, or has a part of its answer.
  if (response.destroyed || response.headersSent) return void response.destroy();
  const { status } = refusal;
  const isAnthropic = /\/messages(\/|$)/.test(pathOf(request)) || request.headers['anthropic-version'] !== undefined;
  const dialect = isAnthropic ? messagesDialect : chatDialect;
  sendJson(response, status, dialect.refusal(refusal), {
    [GATEWAY_HEADER]: 'refused',
    ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    ...(status === 503 || status === 429 ? { 'retry-after': '1' } : {}),
    // The rest of an unread body would be parsed as the next request.
    ...(status === 408 || status === 413 ? { connection: 'close' } : {}),
  });
}
