/** A loopback chat server for models by role: each request is answered by `answer`, and kept. */
import type { ServerResponse } from 'node:http';
import { OpenAIChatClient, type OpenAIChatOptions } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly temperature: number;
  readonly max_tokens: number;
  readonly response_format?: unknown;
  readonly [field: string]: unknown;
}

export type ChatAnswer = string | { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> };

export interface ChatServer extends Loopback {
  readonly bodies: readonly ChatRequest[];
  /** The most requests under way at once so far. */
  readonly mostAtOnce: number;
}

/** `answer` may take its time; it gets the request and its number, from 0. */
export async function chatServer(
  answer: (request: ChatRequest, index: number, response: ServerResponse) => ChatAnswer | Promise<ChatAnswer>,
): Promise<ChatServer> {
  const bodies: ChatRequest[] = [];
  let [atOnce, mostAtOnce] = [0, 0];
  const server = await loopback(async (request, response) => {
    if (request.method === 'GET') return sendJson(response, 200, { data: [{ id: 'judge-model' }] });
    if (request.url !== '/v1/chat/completions') return sendJson(response, 404, { error: { message: 'no such route' } });
    mostAtOnce = Math.max(mostAtOnce, ++atOnce);
    const body = JSON.parse(await readText(request)) as ChatRequest;
    const said = await answer(body, bodies.push(body) - 1, response);
    atOnce -= 1;
    if (typeof said === 'string') sendJson(response, 200, chatCompletion(said));
    else sendJson(response, said.status, said.body, { ...said.headers });
  });
  return Object.defineProperty(Object.assign(server, { bodies, mostAtOnce: 0 }), 'mostAtOnce', { get: () => mostAtOnce });
}

function chatCompletion(content: string): object {
  return {
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
    usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
  };
}

export function chatClient(url: string, more: Partial<OpenAIChatOptions> = {}): OpenAIChatClient & AsyncDisposable {
  const versions = new PolicyVersions({ version: 0, model: 'judge-model' });
  const client = new OpenAIChatClient({ baseUrls: [`${url}/v1`], versions, maxRetries: 0, ...more });
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}
