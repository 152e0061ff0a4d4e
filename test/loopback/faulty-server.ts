/** A server that fails as real ones do: each request meets the next fault of the plan, the last one again and again. */
import type { ServerResponse } from 'node:http';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export type Fault =
  | 'ok'
  | 'reset'
  | 'reset midway'
  | 'hang'
  | 'torn JSON'
  | { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** A 200 with these bytes. */
  | { readonly raw: string };

/** A completion of two tokens, `a` and ` b`, as vLLM 0.32 writes it; `choice` replaces fields of its only choice. */
export function completion(prompt: unknown, choice: Readonly<Record<string, unknown>> = {}): unknown {
  return {
    id: 'cmpl-0',
    object: 'text_completion',
    model: 'm',
    choices: [
      {
        index: 0,
        text: 'a b',
        logprobs: { text_offset: [0, 1], token_logprobs: [-0.5, -0.25], tokens: ['a', ' b'], top_logprobs: [{ a: -0.5 }, { ' b': -0.25 }] },
        finish_reason: 'length',
        stop_reason: null,
        token_ids: [11, 12],
        prompt_logprobs: null,
        prompt_token_ids: prompt,
        ...choice,
      },
    ],
    usage: { prompt_tokens: Array.isArray(prompt) ? prompt.length : 0, total_tokens: 0, completion_tokens: 2 },
  };
}

export function faultyServer(plan: readonly [Fault, ...Fault[]]): Promise<Loopback> {
  let count = 0;
  return loopback(async (request, response) => {
    const text = await readText(request);
    if (request.url === '/v1/models') return sendJson(response, 200, { object: 'list', data: [{ id: 'served', max_model_len: 64 }] });
    const fault = plan[Math.min(count++, plan.length - 1)]!;
    const { prompt } = (text === '' ? {} : JSON.parse(text)) as { prompt?: unknown };
    play(fault, completion(prompt), response);
  });
}

function play(fault: Fault, answer: unknown, response: ServerResponse): void {
  if (fault === 'hang') return;
  if (fault === 'reset') response.socket?.resetAndDestroy();
  else if (fault === 'ok') sendJson(response, 200, answer);
  else if (fault === 'torn JSON') response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer).slice(0, -40));
  else if (fault === 'reset midway') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100000' });
    response.write(JSON.stringify(answer).slice(0, 40), () => response.socket?.resetAndDestroy());
  } else if ('raw' in fault) response.writeHead(200, { 'content-type': 'application/json' }).end(fault.raw);
  else sendJson(response, fault.status, fault.body, { ...fault.headers });
}
