/** A training service on loopback that answers by a script, and remembers what it was asked. */
import type { IncomingMessage } from 'node:http';
import { type Loopback, loopback, sendJson } from '../../transport/loopback.ts';
import type { Exchange } from '../wire/recorded-exchanges.ts';

export interface Asked {
  readonly route: string;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
  /** Undefined for protobuf. */
  readonly json: Record<string, unknown> | undefined;
}

/** JSON, bytes of protobuf, or a status with JSON. */
export type Reply = object | Uint8Array | readonly [status: number, body: unknown, headers?: Record<string, string>];

export interface ScriptedService extends Loopback {
  readonly asked: readonly Asked[];
  to(route: string): readonly Asked[];
}

const PLAIN: Readonly<Record<string, Reply>> = {
  'client/config': {},
  create_session: { session_id: 's1' },
  session_heartbeat: { type: 'session_heartbeat' },
  'sessions/s1/finish': {},
  unload_model: { model_id: 'm1' },
  create_model: { request_id: 'created' },
  create_sampling_session: { sampling_session_id: 'sampler' },
};

/** `reply` answers a request; undefined leaves it to the defaults: a session `s1` and a model `m1`, whose future is `created`. */
export async function scriptedService(reply: (asked: Asked) => Reply | Promise<Reply> | undefined): Promise<ScriptedService> {
  const asked: Asked[] = [];
  const server = await loopback(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    const isJson = (request.headers['content-type'] ?? '').includes('json');
    const one = {
      route: request.url!.replace('/api/v1/', ''),
      headers: request.headers,
      bytes,
      json: isJson ? (JSON.parse(bytes.toString('utf8')) as Record<string, unknown>) : undefined,
    };
    asked.push(one);
    const isCreated = one.route === 'retrieve_future' && one.json?.['request_id'] === 'created';
    const answer = (await reply(one)) ?? (isCreated ? { model_id: 'm1', base_model: 'base', lora_config: { rank: 4, alpha: 32 } } : PLAIN[one.route]);
    if (answer === undefined) return sendJson(response, 404, { detail: 'Not Found' });
    if (answer instanceof Uint8Array) return response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end(answer);
    if (Array.isArray(answer)) return sendJson(response, answer[0] as number, answer[1], answer[2] as Record<string, string>);
    sendJson(response, 200, answer);
  });
  return Object.assign(server, { asked, to: (route: string) => asked.filter((each) => each.route === route) });
}

/** Answers each request by the recorded answer to the same route; those of futures by the request's id. */
export function replayOf(exchanges: readonly Exchange[]): (asked: Asked) => Reply | undefined {
  const places = new Map<string, number>();
  return ({ route, json }) => {
    const id = json?.['request_id'];
    const key = id === undefined ? route : `${route} ${JSON.stringify(id)}`;
    const known = exchanges.filter((each) => each.path === `/api/v1/${route}` && (id === undefined || each.request?.json?.['request_id'] === id));
    const place = places.get(key) ?? 0;
    places.set(key, place + 1);
    const found = known[Math.min(place, known.length - 1)];
    if (found === undefined) return undefined;
    const { json: body, base64 } = found.response;
    return base64 === undefined ? [found.status, body] : new Uint8Array(Buffer.from(base64, 'base64'));
  };
}
