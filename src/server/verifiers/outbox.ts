/** Messages on their way to clients that read at different speeds. A client that does not read holds up no other client, and costs a bounded amount of memory. */
import { setTimeout as wait } from 'node:timers/promises';

export interface Outgoing {
  readonly client: Uint8Array;
  /** All frames, the client's first. */
  readonly frames: readonly (Uint8Array | string)[];
  readonly bytes: number;
}

export interface OutboxOptions {
  /** Resolves once the message is handed over: `later` if its client must read first, `gone` if there is no such client. */
  readonly send: (frames: Outgoing['frames']) => Promise<'sent' | 'later' | 'gone'>;
  /** Called when a client has gone, or is given up because it does not read. */
  readonly onGone: (client: Uint8Array) => void;
  /** Memory of all messages; above it the client with the most waiting messages is given up. @default 512 MiB */
  readonly maxBytes?: number;
}

/** Until a client that had not read is tried again. */
const RETRY_MS = 5;
/** Memory of a message in addition to its data. */
const MESSAGE_BYTES = 512;

interface Waiting {
  readonly client: Uint8Array;
  readonly messages: Outgoing[];
  bytes: number;
}

export class Outbox {
  readonly #options: OutboxOptions;
  /** By client; none is empty. */
  readonly #waiting = new Map<string, Waiting>();
  #bytes = 0;
  #sending: Promise<void> | null = null;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Messages to one client arrive in order. */
  put(message: Outgoing): void {
    const key = keyOf(message.client);
    const waiting = this.#waiting.get(key) ?? { client: message.client, messages: [], bytes: 0 };
    const bytes = message.bytes + MESSAGE_BYTES;
    waiting.messages.push({ ...message, bytes });
    waiting.bytes += bytes;
    this.#bytes += bytes;
    this.#waiting.set(key, waiting);
    while (this.#bytes > (this.#options.maxBytes ?? 512 * 2 ** 20)) this.#giveUpLargest();
    this.#sending ??= this.#sendAll();
  }

  /** Resolves once everything is handed over; messages to clients that do not read are lost after `withinMs`. */
  async flush(withinMs: number): Promise<void> {
    if (this.#sending === null) return;
    const given = new AbortController();
    await Promise.race([this.#sending, wait(withinMs, undefined, { signal: given.signal }).catch(() => {})]);
    given.abort();
    this.#waiting.clear();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.size > 0) {
      let isStalled = true;
      // One client after the other, so that many messages for one do not delay the others' by much.
      for (const [key, waiting] of this.#waiting) {
        const [message] = waiting.messages;
        const outcome = await this.#options.send(message!.frames);
        // It may have been given up meanwhile.
        if (this.#waiting.get(key) !== waiting) continue;
        if (outcome !== 'later') isStalled = false;
        if (outcome === 'gone') this.#drop(key, waiting);
        if (outcome === 'sent') this.#handedOver(key, waiting);
      }
      if (isStalled && this.#waiting.size > 0) await wait(RETRY_MS);
    }
    this.#sending = null;
  }

  #handedOver(key: string, waiting: Waiting): void {
    const { bytes } = waiting.messages.shift()!;
    waiting.bytes -= bytes;
    this.#bytes -= bytes;
    if (waiting.messages.length === 0) this.#waiting.delete(key);
  }

  #giveUpLargest(): void {
    const [key, waiting] = [...this.#waiting].reduce((largest, each) => (each[1].bytes > largest[1].bytes ? each : largest));
    this.#drop(key, waiting);
  }

  #drop(key: string, waiting: Waiting): void {
    this.#waiting.delete(key);
    this.#bytes -= waiting.bytes;
    this.#options.onGone(waiting.client);
  }
}

function keyOf(client: Uint8Array): string {
  return Buffer.from(client).toString('hex');
}
