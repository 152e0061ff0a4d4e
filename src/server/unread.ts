/** Bounds what a server holds for clients that do not read: the bytes of all connections together, and the time for which a client may take nothing of its answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getHeapStatistics } from 'node:v8';

export interface UnreadOptions {
  /** Bytes that all clients together may leave unread; beyond it the client that leaves most is cut off. @default a quarter of the heap's limit, at most 512 MiB */
  readonly maxBytes?: number;
  /** The time for which a client may take nothing of what waits for it, in milliseconds. @default 300,000 */
  readonly stallMs?: number;
}

/** Requests of one connection that may wait for their answers. Clients that send several at all send far fewer. */
const MOST_PIPELINED = 16;
/** Looks per `stallMs`. */
const LOOKS = 4;

/** What a look at a connection saw, and how many looks in a row have seen the same. */
interface Seen {
  taken: number;
  queued: number;
  times: number;
}

export class Unread {
  readonly #maxBytes: number;
  readonly #seen = new Map<Socket, Seen>();
  /** Responses that have not ended, by connection; none is empty. */
  readonly #open = new Map<Socket, Set<ServerResponse>>();
  readonly #looking: NodeJS.Timeout;

  constructor({ maxBytes = defaultMaxBytes(), stallMs = 300_000 }: UnreadOptions = {}) {
    this.#maxBytes = maxBytes;
    this.#looking = setInterval(() => this.#look(), stallMs / LOOKS);
    this.#looking.unref();
  }

  /** Bytes that wait for clients now. */
  get bytes(): number {
    let bytes = 0;
    for (const socket of this.#seen.keys()) bytes += this.#waitingFor(socket);
    return bytes;
  }

  /** Watches a connection until it closes. */
  watch(socket: Socket): void {
    this.#seen.set(socket, { taken: 0, queued: 0, times: 0 });
    socket.once('close', () => this.#seen.delete(socket));
  }

  /** False if the request must not be answered: its connection is cut, because too many of its requests wait. */
  admits({ socket }: IncomingMessage, response: ServerResponse): boolean {
    // What one packet holds is parsed to its end, although the first request of it may have ended the connection.
    if (socket.destroyed) return false;
    const open = this.#open.get(socket) ?? new Set();
    if (open.size >= MOST_PIPELINED) {
      socket.destroy();
      return false;
    }
    this.#open.set(socket, open.add(response));
    response.once('prefinish', () => this.check());
    response.once('close', () => {
      open.delete(response);
      if (open.size === 0) this.#open.delete(socket);
    });
    this.check();
    return true;
  }

  /** Cuts off the clients that leave most, while all together leave too much. */
  check(): void {
    const waiting = [...this.#seen.keys()].map((socket) => ({ socket, bytes: this.#waitingFor(socket) }));
    let bytes = waiting.reduce((sum, each) => sum + each.bytes, 0);
    if (bytes <= this.#maxBytes) return;
    for (const each of waiting.toSorted((a, b) => b.bytes - a.bytes)) {
      each.socket.destroy();
      bytes -= each.bytes;
      if (bytes <= this.#maxBytes) return;
    }
  }

  close(): void {
    clearInterval(this.#looking);
  }

  #waitingFor(socket: Socket): number {
    let bytes = socket.writableLength;
    // An answer has the connection only once those before it are written.
    for (const response of this.#open.get(socket) ?? []) if (response.socket === null) bytes += response.writableLength;
    return bytes;
  }

  #look(): void {
    for (const [socket, seen] of this.#seen) {
      const taken = socket.bytesWritten - socket.writableLength;
      const queued = queuedBytes(socket);
      const isStalled = socket.writableLength > 0 && taken === seen.taken && queued === seen.queued;
      Object.assign(seen, { taken, queued, times: isStalled ? seen.times + 1 : 0 });
      if (seen.times >= LOOKS) socket.destroy();
    }
    this.check();
  }
}

/** Bytes of the write under way that the client has not taken. Node's own timeouts read it too: a long write shows no progress elsewhere. */
function queuedBytes(socket: Socket): number {
  const handle = Reflect.get(socket, '_handle') as { readonly writeQueueSize?: number } | null | undefined;
  return handle?.writeQueueSize ?? 0;
}

function defaultMaxBytes(): number {
  return Math.min(2 ** 29, getHeapStatistics().heap_size_limit / 4);
}
