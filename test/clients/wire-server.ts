/** A loopback server that speaks the three wires of model APIs, whole and streamed, as the providers of the AI SDK ask for them. What it answers is the test's. */
import type { AgentRequest, AgentTurn } from '../../src/agents/agent-request.ts';
import { chatDialect } from '../../src/agents/dialects/chat.ts';
import type { Dialect, StreamEvent } from '../../src/agents/dialects/dialect.ts';
import { messagesDialect } from '../../src/agents/dialects/messages.ts';
import { responsesDialect } from '../../src/agents/dialects/responses.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export interface WireRequest {
  readonly dialect: Dialect['name'];
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Readonly<Record<string, unknown>>;
  readonly stop: readonly string[];
  readonly limit: number;
}

export type WireAnswer = Partial<AgentTurn> | { readonly status: number; readonly body: unknown; readonly headers?: Record<string, string> };

export interface WireServer extends Loopback {
  readonly seen: readonly WireRequest[];
}

const ROUTES: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': chatDialect,
  '/v1/responses': responsesDialect,
  '/v1/messages': messagesDialect,
};
const HEAD = { id: '1', created: 1_700_000_000, model: 'm' };

export async function wireServer(answer: (request: WireRequest, index: number) => WireAnswer | Promise<WireAnswer>): Promise<WireServer> {
  const seen: WireRequest[] = [];
  const server = await loopback(async (request, response) => {
    const body = JSON.parse(await readText(request)) as Record<string, unknown>;
    const dialect = ROUTES[request.url!]!;
    const limit = Number(body['max_tokens'] ?? body['max_completion_tokens'] ?? body['max_output_tokens'] ?? Infinity);
    const stop = ([body['stop'] ?? body['stop_sequences'] ?? []] as unknown[]).flat() as string[];
    const asked = { dialect: dialect.name, headers: request.headers, body, stop, limit };
    const said = await answer(asked, seen.push(asked) - 1);
    if ('status' in said && typeof said.body === 'string') return response.writeHead(said.status, said.headers).end(said.body);
    if ('status' in said) return sendJson(response, said.status, said.body, said.headers);
    const turn: AgentTurn = {
      content: '',
      toolCalls: [],
      finish: 'stop',
      usage: { promptTokens: 7, completionTokens: 3, cachedTokens: null },
      ...said,
    };
    const like: AgentRequest = {
      model: 'm',
      messages: [],
      tools: [],
      settings: {},
      isStreamed: body['stream'] === true,
      countsUsage: true,
      unhonoured: [],
    };
    if (!like.isStreamed) return sendJson(response, 200, dialect.answer(HEAD, like, [turn]));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end([...dialect.opening(HEAD, like, [turn]), ...dialect.events(HEAD, like, [turn])].map(written).join(''));
  });
  return Object.assign(server, { seen });
}

function written({ event, data }: StreamEvent): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}
