/** A client of OpenEnv's WebSocket that sends what no client of OpenEnv would. */
import { once } from 'node:events';
import { expect } from 'vitest';
import { type ClientOptions, WebSocket } from 'ws';
import type { Answer } from './environment-client.ts';

export interface OpenEnvClient extends AsyncDisposable {
  readonly socket: WebSocket;
  /** Sends a frame, an object as JSON, and gives the next answer. */
  ask(frame: string | Buffer | object): Promise<Answer>;
  send(frame: string | Buffer | object): void;
  /** The next frame that arrives. */
  next(): Promise<Answer>;
  reset(data?: object): Promise<Answer>;
  step(text: unknown): Promise<Answer>;
  /** Status code of the close frame; 1006 where there was none. */
  readonly closed: Promise<number>;
}

/** Rejects with the server's HTTP answer where it opens no socket. */
export async function openEnvClient(url: string, options: ClientOptions & { readonly path?: string } = {}): Promise<OpenEnvClient> {
  const { path = '/ws', ...others } = options;
  const socket = new WebSocket(url.replace('http', 'ws') + path, others);
  const arrived: Answer[] = [];
  const waiting: ((answer: Answer) => void)[] = [];
  socket.on('message', (data) => {
    const answer: Answer = JSON.parse((data as Buffer).toString('utf8'));
    const next = waiting.shift();
    if (next === undefined) arrived.push(answer);
    else next(answer);
  });
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  await once(socket, 'open');
  socket.on('error', () => {});
  const send = (frame: string | Buffer | object) => socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  const next = () => new Promise<Answer>((resolve) => (arrived.length > 0 ? resolve(arrived.shift()) : waiting.push(resolve)));
  const ask = (frame: string | Buffer | object) => {
    send(frame);
    return next();
  };
  return {
    socket,
    send,
    next,
    ask,
    reset: (data = {}) => ask({ type: 'reset', data }),
    step: (text) => ask({ type: 'step', data: { text } }),
    closed,
    async [Symbol.asyncDispose]() {
      socket.terminate();
      await closed;
    },
  };
}

/** A frame of that error, for `toEqual`. */
export function errorFrame(code: string, message: RegExp) {
  return { type: 'error', data: { code, message: expect.stringMatching(message) as string } };
}
