/** The ROUTER socket: receives requests of four frames, and sends one message at a time. */
import type { Router } from 'zeromq';
import { ConfigError } from '../../core/errors.ts';
import { hostText, isLoopback } from '../listen.ts';
import { Outbox, type Outgoing } from './outbox.ts';
import type { WireLibraries } from './wire-libraries.ts';
import { ZmtpDoor } from './zmtp-door.ts';

/** `[client, request id, method, payload]` */
export type RequestFrames = readonly [Buffer, Buffer, Buffer, Buffer];

export interface WireSocketOptions {
  /** `tcp://host:port`; port 0 picks a free one. */
  readonly address: string;
  /** True if other machines may reach it: the wire has no password. */
  readonly allowsNetwork: boolean;
  /** Called when a client has gone, or is given up because it does not read. */
  readonly onGone: (client: Uint8Array) => void;
  readonly onFailure: (error: unknown) => void;
}

/** A larger message ends its connection. Requests have three frames on this wire. */
const MESSAGE = { frames: 8, bytes: 64 * 2 ** 20 } as const;
/** Requests of one client that the process has not read yet; further ones wait at the client. */
const MOST_UNREAD = 256;
/** Messages to one client that ZeroMQ holds and the outbox no longer counts; further unread ones wait in the outbox. */
const MOST_UNSENT = 8;
/** Time for messages under way when the socket is closed. */
const LINGER_MS = 1000;

interface Bound {
  readonly socket: Router;
  readonly door: ZmtpDoor;
  readonly address: string;
}

export class WireSocket {
  readonly #socket: Router;
  readonly #options: WireSocketOptions;
  readonly #outbox: Outbox;
  readonly #door: ZmtpDoor;
  /** `tcp://host:port`, with the actual port. */
  readonly address: string;

  private constructor({ socket, door, address }: Bound, options: WireSocketOptions) {
    this.#socket = socket;
    this.#door = door;
    this.address = address;
    this.#options = options;
    this.#outbox = new Outbox({ send: (frames) => this.#send(frames), onGone: options.onGone });
  }

  /** Throws ConfigError if the address cannot be used. */
  static async bind({ Router: RouterSocket }: WireLibraries['zeromq'], options: WireSocketOptions): Promise<WireSocket> {
    const { address, allowsNetwork } = options;
    const { host, port } = parseAddress(address);
    if (!isLoopback(host) && !allowsNetwork) {
      throw new ConfigError(
        `--bind ${address} is open to the network, and this wire has no password. Bind 127.0.0.1, or add --allow-network if every machine that reaches the port may use it.`,
      );
    }
    const socket = new RouterSocket({
      mandatory: true,
      maxMessageSize: MESSAGE.bytes,
      receiveHighWaterMark: MOST_UNREAD,
      sendHighWaterMark: MOST_UNSENT,
      // The outbox tries again: a client that does not read must not hold up the others.
      sendTimeout: 0,
      linger: LINGER_MS,
    });
    const door = new ZmtpDoor({ limits: MESSAGE, onFailure: options.onFailure });
    try {
      await socket.bind(`ipc://${door.behind}`);
      const actual = await door.listen(host === '*' ? '0.0.0.0' : host, port);
      return new WireSocket({ socket, door, address: `tcp://${hostText(actual)}:${actual.port}` }, options);
    } catch (cause) {
      socket.close();
      await door.close(0);
      throw bindError(cause as NodeJS.ErrnoException, address);
    }
  }

  /** Ends when the socket is closed. Messages of another number of frames are dropped, because nothing says to whom an answer would go. */
  async *requests(): AsyncGenerator<RequestFrames, void> {
    for await (const frames of this.#socket) {
      if (frames.length === 4) yield frames as unknown as RequestFrames;
    }
  }

  /** Queues a message. It is lost if its client has gone. */
  send(client: Uint8Array, requestId: Uint8Array, kind: 'delta' | 'reply', data: Uint8Array): void {
    this.#outbox.put({ client, frames: [client, requestId, kind, data], bytes: data.length });
  }

  /** Sends what is queued, and closes. */
  async close(): Promise<void> {
    await this.#outbox.flush(LINGER_MS);
    this.#socket.close();
    await this.#door.close(LINGER_MS);
  }

  /** The outbox calls it for one message at a time, as the socket needs. */
  async #send(frames: Outgoing['frames']): Promise<'sent' | 'later' | 'gone'> {
    try {
      await this.#socket.send(frames as (Uint8Array | string)[]);
      return 'sent';
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EAGAIN') return 'later';
      if (code !== 'EHOSTUNREACH' && !this.#socket.closed) this.#options.onFailure(error);
      return 'gone';
    }
  }
}

/** True if other machines reach the address. Throws ConfigError if it is none. */
export function isOpenToNetwork(address: string): boolean {
  return !isLoopback(parseAddress(address).host);
}

function parseAddress(address: string): { readonly host: string; readonly port: number } {
  const [, ipv6, name, digits] = /^tcp:\/\/(?:\[([0-9a-fA-F:.]+)\]|([\w.*-]+)):(\d{1,5})$/.exec(address) ?? [];
  const host = ipv6 ?? name;
  if (host === undefined || Number(digits) > 65_535) {
    throw new ConfigError(
      `--bind ${JSON.stringify(address)} is not an address. Write tcp://HOST:PORT, such as tcp://127.0.0.1:5000; port 0 picks a free one.`,
    );
  }
  return { host, port: Number(digits) };
}

function bindError(cause: NodeJS.ErrnoException, address: string): ConfigError {
  if (cause.code === 'EADDRINUSE')
    return new ConfigError(`The port of --bind ${address} is in use. Choose another one; port 0 picks a free one.`, { cause });
  if (cause.code === 'EACCES') return new ConfigError(`This user may not bind ${address}. Choose a port above 1023.`, { cause });
  return new ConfigError(`--bind ${address} could not be used (${cause.message}). Choose an address of this machine, such as tcp://127.0.0.1:5000.`, {
    cause,
  });
}
