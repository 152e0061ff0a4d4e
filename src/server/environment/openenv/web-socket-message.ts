/**
 * Follows the framing of WebSockets (RFC 6455) on one connection, without keeping anything, to tell how much of a message has arrived: the library tells of whole messages
 * alone. What is not well formed is left to the library, which ends the connection.
 */
import type { BegunMessage } from '../../unfinished-messages.ts';

const BIT = { final: 0x80, control: 0x08, masked: 0x80 } as const;
/** The lengths that stand for a length of two and of eight bytes behind them. */
const SHORT = 126;
const LONG = 127;
/** Memory of a chunk in addition to its bytes: the library keeps each as it arrived. */
const CHUNK_BYTES = 256;

export class WebSocketMessage implements BegunMessage {
  /** The bytes of the frame's head so far. */
  readonly #head: number[] = [];
  /** Bytes of the frame's body that are still to come. */
  #left = 0;
  #isLast = true;
  #isControl = false;
  /** Of the message, without a control frame in the middle of it. */
  #bytes = 0;
  /** Of the frame: its head and body. */
  #frameBytes = 0;
  #ended = 0;

  get bytes(): number {
    return this.#bytes + this.#frameBytes;
  }

  get ended(): number {
    return this.#ended;
  }

  take(chunk: Uint8Array): void {
    this.#frameBytes += CHUNK_BYTES;
    let at = 0;
    while (at < chunk.length) {
      const passed = this.#left > 0 ? Math.min(this.#left, chunk.length - at) : 1;
      this.#frameBytes += passed;
      if (this.#left > 0) this.#left -= passed;
      else {
        this.#head.push(chunk[at]!);
        if (this.#head.length < headBytes(this.#head)) {
          at++;
          continue;
        }
        this.#begin();
      }
      at += passed;
      if (this.#left === 0) this.#frameEnded();
    }
  }

  #begin(): void {
    const [flags = 0, size = 0, ...rest] = this.#head;
    const length = size & ~BIT.masked;
    const wide = length === SHORT ? 2 : 8;
    this.#left = length < SHORT ? length : rest.slice(0, wide).reduce((sum, each) => sum * 256 + each, 0);
    this.#isLast = (flags & BIT.final) !== 0;
    this.#isControl = (flags & BIT.control) !== 0;
    this.#head.length = 0;
  }

  #frameEnded(): void {
    if (!this.#isControl) this.#bytes += this.#frameBytes;
    this.#frameBytes = 0;
    // A control frame may stand between the frames of a message.
    if (this.#isControl ? this.#bytes > 0 : !this.#isLast) return;
    this.#bytes = 0;
    this.#ended += 1;
  }
}

/** Of the head that begins so. */
function headBytes([, size]: readonly number[]): number {
  if (size === undefined) return 2;
  const length = size & ~BIT.masked;
  const wide = length === LONG ? 8 : length === SHORT ? 2 : 0;
  return 2 + wide + ((size & BIT.masked) === 0 ? 0 : 4);
}
