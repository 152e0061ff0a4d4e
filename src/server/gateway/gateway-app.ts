/**
 * The routes of the gateway, below `/s/ID/v1` of a session or, for a tool that takes no path, `/v1` with its key: what clients of OpenAI and Anthropic ask for. A client that adds
 * `/v1` itself, or leaves it out, is answered too.
 */
import { type Context, Hono } from 'hono';
import { AgentRefusal } from '../../agents/agent-refusal.ts';
import { chatDialect } from '../../agents/dialects/chat.ts';
import type { Dialect } from '../../agents/dialects/dialect.ts';
import { messagesDialect } from '../../agents/dialects/messages.ts';
import { responsesDialect } from '../../agents/dialects/responses.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS } from '../bounded-body.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { answer, answerCount, type Call } from './answer-routes.ts';
import type { OpenSession } from './open-session.ts';
import type { OpenSessions } from './open-sessions.ts';

export interface GatewayAppOptions {
  readonly sessions: OpenSessions;
  /** The address that the app listens on. */
  readonly host: string;
  /** @default 32 MiB: a window of a million tokens is about 4 MB */
  readonly maxBodyBytes?: number;
  /** Routes that are looked at before those of agents. @default none */
  readonly first?: Hono;
  /** Called for every failure of the gateway itself. */
  readonly onFailure: (error: unknown) => void;
}

/** Bodies of the largest size that are read at a time. */
const BODIES_HELD = 8;
const DIALECTS: Readonly<Record<string, Dialect>> = { 'chat/completions': chatDialect, responses: responsesDialect, messages: messagesDialect };
const COUNTED: Readonly<Record<string, Dialect>> = { 'messages/count_tokens': messagesDialect, 'responses/input_tokens': responsesDialect };
const PATH = /^(?:\/s\/([A-Za-z0-9_-]{1,64}))?(?:\/v1){0,2}(?:\/(.*))?$/;

export function gatewayApp(options: GatewayAppOptions): Hono {
  const { sessions, host, maxBodyBytes = 32 * 2 ** 20, onFailure } = options;
  const namesThisServer = hostCheck(host);
  const budget = new BodyBudget({ maxBodyBytes, maxTotalBytes: BODIES_HELD * maxBodyBytes, bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS });
  const refusalOf = (error: unknown, signal: AbortSignal): AgentRefusal => {
    if (error instanceof AgentRefusal) return error;
    // What a client that has left makes of a request is no failure.
    if (!signal.aborted) onFailure(error);
    return new AgentRefusal(500, null, 'The gateway failed while it answered this request. The output of its process says why.');
  };
  const app = new Hono();
  if (options.first !== undefined) app.route('/', options.first);
  app.all('*', async (c) => {
    // The signal must be read before anything is awaited; later the server no longer reports that a client disconnected.
    const { signal } = c.req.raw;
    try {
      if (!namesThisServer(c.req.raw)) throw new AgentRefusal(403, null, WRONG_HOST);
      const [, id = null, route = ''] = PATH.exec(c.req.path) ?? refuseRoute(c.req.path);
      const session = sessions.find(id, c.req.raw.headers);
      return await answerRoute({ c, session, signal, budget, refusalOf: (error) => refusalOf(error, signal) }, route);
    } catch (error) {
      return refused(c, refusalOf(error, signal));
    }
  });
  return app;
}

function refuseRoute(path: string): never {
  throw new AgentRefusal(
    404,
    null,
    `The gateway has no ${JSON.stringify(path.slice(0, 100))}. It answers POST chat/completions, responses, responses/input_tokens, messages and messages/count_tokens, and GET models and responses/ID.`,
  );
}

async function answerRoute(call: Call, route: string): Promise<Response> {
  const { c, session } = call;
  const { method } = c.req;
  const dialect = Object.hasOwn(DIALECTS, route) ? DIALECTS[route]! : null;
  const counted = Object.hasOwn(COUNTED, route) ? COUNTED[route]! : null;
  const isPosted = dialect !== null || counted !== null;
  const allow = isPosted ? 'POST, OPTIONS' : 'GET, HEAD, OPTIONS';
  if (!isPosted && !isListed(route)) refuseRoute(c.req.path);
  if (method === 'OPTIONS') return c.body(null, 204, { allow });
  if (!allow.split(', ').includes(method)) {
    c.header('allow', allow);
    throw new AgentRefusal(405, null, `This path takes ${allow}, not ${method}.`);
  }
  if (dialect !== null) return answer(call, dialect);
  if (counted !== null) return answerCount(call, counted);
  return c.json(listed(session, route));
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
function refused(c: Context, refusal: AgentRefusal): Response {
  // The client has disconnected and reads no answer.
  if (c.req.raw.signal.aborted) return c.body(null, 400);
  const isAnthropic = /\/messages(\/|$)/.test(c.req.path) || c.req.header('anthropic-version') !== undefined;
  const dialect = isAnthropic ? messagesDialect : chatDialect;
  if (refusal.status === 401) c.header('www-authenticate', 'Bearer');
  if (refusal.status === 503 || refusal.status === 429) c.header('retry-after', '1');
  // The rest of an unread body would be parsed as the next request.
  if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
  return c.json(dialect.refusal(refusal), refusal.status as 400);
}
