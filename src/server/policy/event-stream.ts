/** Server-sent events. The response starts with the first event, so that an earlier failure can have its own status. */
import { VfError } from '../../core/errors.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { type PolicyRefusal, refusalOf } from './policy-refusal.ts';

export interface EventStreamOptions {
  /** Sends events until it resolves. A failure after the first event is sent as the last event. `send` never throws. */
  readonly produce: (send: (data: object) => void) => Promise<void>;
  /** The account of the events of all streams that no client has read yet. A stream that holds much when it is full is cut. */
  readonly held: HeldBytes;
  /** Called if the client disconnects, or is cut because it does not read. */
  readonly onCancel: () => void;
  /** Called with a failure that was sent as the last event. */
  readonly onRefusal: (refusal: PolicyRefusal) => void;
}

const HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };
/** A stream that holds less is not cut: others have filled the account. */
const LITTLE_BYTES = 2 ** 20;

/** Rejects if `produce` rejects before its first event. */
export function eventStream({ produce, held, onCancel, onRefusal }: EventStreamOptions): Promise<Response> {
  const unread = new UnreadEvents(held);
  return new Promise((resolve, reject) => {
    let isOpen = true;
    let hasBegun = false;
    const leave = () => {
      isOpen = false;
      unread.drop();
      onCancel();
    };
    const write = (text: string) => {
      if (isOpen && !unread.add(`data: ${text}\n\n`)) leave();
      if (!hasBegun) resolve(new Response(unread.stream(leave), { headers: HEADERS }));
      hasBegun = true;
    };
    const end = () => {
      write('[DONE]');
      if (isOpen) unread.end();
      isOpen = false;
    };
    produce((data) => write(JSON.stringify(data))).then(end, (error: unknown) => {
      if (!hasBegun) return reject(error);
      const refusal = refusalOf(error);
      if (isOpen) onRefusal(refusal);
      write(JSON.stringify(refusal.body));
      end();
    });
  });
}

/** Events that the client has not read yet, in order. */
class UnreadEvents {
  readonly #held: HeldBytes;
  readonly #encoder = new TextEncoder();
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #state: 'open' | 'ended' | 'dropped' = 'open';
  #changed = Promise.withResolvers<void>();

  constructor(held: HeldBytes) {
    this.#held = held;
  }

  /** False if they have no room. */
  add(text: string): boolean {
    const chunk = this.#encoder.encode(text);
    this.#chunks.push(chunk);
    this.#hold(chunk.length);
    this.#changed.resolve();
    return this.#bytes <= LITTLE_BYTES || this.#held.makeRoom();
  }

  end(): void {
    this.#state = 'ended';
    this.#changed.resolve();
  }

  /** Forgets the events and breaks the answer off. */
  drop(): void {
    this.#state = 'dropped';
    this.#take();
    this.#changed.resolve();
  }

  stream(onCancel: () => void): ReadableStream<Uint8Array> {
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      if (this.#bytes === 0 && this.#state === 'open') await this.#changed.promise;
      this.#changed = Promise.withResolvers();
      const chunk = this.#take();
      if (this.#state === 'dropped') controller.error(new VfError('The client does not read its events'));
      else if (chunk.length > 0) controller.enqueue(chunk);
      else controller.close();
    };
    return new ReadableStream({ pull, cancel: onCancel }, { highWaterMark: 0 });
  }

  #take(): Uint8Array {
    const [first = new Uint8Array(0), ...more] = this.#chunks;
    const chunk = more.length === 0 ? first : Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#hold(-this.#bytes);
    return chunk;
  }

  #hold(change: number): void {
    this.#bytes += change;
    this.#held.hold(change);
  }
}
