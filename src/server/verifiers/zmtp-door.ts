/**
 * The address that clients of a ZeroMQ socket connect to. Passes their bytes on to the socket, which listens where only this process reaches it, and ends a connection whose
 * message has no end, or that does not read.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { VfError } from '../../core/errors.ts';
import { UnfinishedMessages } from '../unfinished-messages.ts';
import { Unread } from '../unread.ts';
import { type MessageLimits, ZmtpMessage } from './zmtp-message.ts';

export interface ZmtpDoorOptions {
  /** Of one message. */
  readonly limits: MessageLimits;
  /** Bytes of all messages that have begun and not ended. @default 512 MiB */
  readonly maxBytes?: number;
  /** The time from the first bytes of a message to its last, in milliseconds. @default 120000: 64 MiB at 5 Mbit/s */
  readonly maxMs?: number;
  /** Called when a connection is ended, once for each reason. */
  readonly onFailure: (error: VfError) => void;
}

export class ZmtpDoor {
  readonly #options: ZmtpDoorOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'vf-search-zmtp-'));
  readonly #server: Server = createServer((client) => this.#enter(client));
  readonly #unread = new Unread();
  readonly #clients = new Set<Socket>();
  readonly #unfinished: UnfinishedMessages<Socket>;
  readonly #said = new Set<string>();

  constructor(options: ZmtpDoorOptions) {
    this.#options = options;
    const { maxBytes = 2 ** 29, maxMs = 120_000 } = options;
    this.#unfinished = new UnfinishedMessages({ maxBytes, maxMs, end: (client, why) => this.#end(client, why) });
  }

  /** Where the ZeroMQ socket must listen: a path in a folder of this user alone. */
  get behind(): string {
    return join(this.#folder, 'socket');
  }

  /** The actual address. Rejects with the system's error if it cannot be used. */
  async listen(host: string, port: number): Promise<AddressInfo> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, resolve);
    });
    return this.#server.address() as AddressInfo;
  }

  /** Gives what the socket still sends up to `withinMs` to pass. */
  async close(withinMs: number): Promise<void> {
    const late = setTimeout(() => this.#clients.forEach((client) => client.destroy()), withinMs);
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    clearTimeout(late);
    this.#unread.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #enter(client: Socket): void {
    const message = new ZmtpMessage(this.#options.limits);
    const inner = connect(this.behind);
    this.#clients.add(client);
    this.#unread.watch(client);
    client.on('data', (chunk) => {
      const fault = message.take(chunk);
      if (fault !== null) return this.#end(client, fault);
      this.#unfinished.arrived(client, message);
      if (!client.destroyed && !inner.write(chunk)) client.pause();
    });
    inner.on('drain', () => client.resume());
    inner.on('data', (chunk) => {
      if (!client.write(chunk)) inner.pause();
    });
    client.on('drain', () => inner.resume());
    for (const [one, other] of [
      [client, inner],
      [inner, client],
    ] as const) {
      // The end of a connection is told by its close.
      one.on('error', () => {});
      one.once('end', () => other.end());
      one.once('close', () => other.destroy());
    }
    client.once('close', () => {
      this.#clients.delete(client);
      this.#unfinished.forget(client);
    });
  }

  #end(client: Socket, why: string): void {
    client.destroy();
    this.#unfinished.forget(client);
    if (this.#said.has(why)) return;
    this.#said.add(why);
    this.#options.onFailure(new VfError(`A client was disconnected: ${why}`));
  }
}
