/** The body of a request of Node's server, for a BodyBudget, and what is left of one that was not read to its end. */
import type { IncomingMessage } from 'node:http';
import type { BodyReader, BodySource } from './bounded-body.ts';
import { networkOf } from './client-of.ts';

export function incomingBody(incoming: IncomingMessage): BodySource {
  return {
    client: networkOf(incoming.socket.remoteAddress),
    announced: Number(incoming.headers['content-length'] ?? 0),
    open: () => new IncomingReader(incoming),
  };
}

type Piece = Awaited<ReturnType<BodyReader['read']>>;

const EVENTS = ['readable', 'end', 'error', 'close'] as const;

class IncomingReader implements BodyReader {
  readonly #incoming: IncomingMessage;
  #waiting: PromiseWithResolvers<Piece> | null = null;

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
    for (const event of EVENTS) incoming.on(event, this.#look);
  }

  read(): Promise<Piece> {
    this.#waiting = Promise.withResolvers();
    const { promise } = this.#waiting;
    this.#look();
    return promise;
  }

  releaseLock(): void {
    for (const event of EVENTS) this.#incoming.off(event, this.#look);
    this.#waiting?.reject(new Error('The body is read no further.'));
    this.#waiting = null;
  }

  readonly #look = (): void => {
    const waiting = this.#waiting;
    if (waiting === null) return;
    const value = this.#incoming.read() as Buffer | null;
    const { readableEnded, destroyed, errored } = this.#incoming;
    if (value !== null) waiting.resolve({ done: false, value });
    else if (readableEnded) waiting.resolve({ done: true });
    else if (destroyed) waiting.reject(errored ?? new Error('The connection was closed.'));
    else return;
    this.#waiting = null;
  };
}

/** As @hono/node-server, which does the same for its apps. */
const [REST_MS, MOST_REST_BYTES] = [500, 64 * 2 ** 20] as const;

/** Reads what is left of a body after the answer, so that the connection takes its next request; closes the connection if too much is left. */
export function readRest(incoming: IncomingMessage): void {
  if (incoming.readableEnded || incoming.destroyed) return;
  incoming.resume();
  if (incoming.complete) return;
  let bytes = 0;
  const cut = () => incoming.socket.destroySoon();
  const timer = setTimeout(cut, REST_MS);
  timer.unref();
  incoming.on('data', ({ length }: Buffer) => {
    bytes += length;
    if (bytes > MOST_REST_BYTES) cut();
  });
  incoming.once('close', () => clearTimeout(timer));
}
