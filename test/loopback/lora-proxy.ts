/** A proxy that passes everything on unless a test steps in: it records what was sent, and produces faults that no server produces on demand. */
import type { ServerResponse } from 'node:http';
import { Agent, fetch } from 'undici';
import { type Loopback, loopback, readText } from '../transport/loopback.ts';

interface ProxiedRequest {
  readonly path: string;
  readonly body: string;
  /** Passes the request on and gives the answer, which is not sent yet. */
  readonly pass: () => Promise<{ readonly status: number; readonly text: string }>;
}

/** Answers the request itself and returns true, or leaves it to the server. */
export type Fault = (request: ProxiedRequest, response: ServerResponse) => boolean | Promise<boolean>;

/** `url` with or without `/v1`. */
export async function loraProxy(url: string, fault: Fault = () => false): Promise<Loopback> {
  const root = url.replace(/\/v1$/, '');
  // A connection of its own for each request: uvicorn closes an idle one after 5 s, which a busy event loop notices too late.
  const dispatcher = new Agent({ pipelining: 0 });
  return await loopback(async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    const body = await readText(request);
    const pass = async () => {
      const authorization = headers.authorization === undefined ? {} : { authorization: headers.authorization };
      const options = { method, dispatcher, headers: { 'content-type': 'application/json', ...authorization }, ...(body === '' ? {} : { body }) };
      const answer = await fetch(`${root}${path}`, options);
      return { status: answer.status, text: await answer.text() };
    };
    if (await fault({ path, body, pass }, response)) return;
    const answer = await pass().catch(() => null);
    // Without an answer the client sees what it would have seen without a proxy: a closed connection.
    if (answer === null) response.destroy();
    else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text);
  });
}
