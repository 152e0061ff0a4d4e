/**
 * Follows the framing of ZMTP 3 (rfc.zeromq.org/spec/37) on one connection, without keeping anything, to tell how large a message already is. libzmq bounds a frame, but
 * neither the frames of a message nor their bytes, and holds a message until its last frame has arrived.
 */
import type { BegunMessage } from '../unfinished-messages.ts';

export interface MessageLimits {
  readonly frames: number;
  readonly bytes: number;
}

const OTHER_PROTOCOL = 'it does not speak ZMTP 3';
const GREETING_BYTES = 64;
/** The greeting's fixed bytes by place, and the least version of the protocol. */
const SIGNATURE_START = 0xff;
const SIGNATURE_END = 0x7f;
const LEAST_VERSION = 3;
const FLAG = { more: 1, long: 2, command: 4, known: 7 } as const;
const MOST_COMMAND_BYTES = 2 ** 16;
/** Memory of a frame in addition to its bytes. */
const FRAME_BYTES = 64;

export class ZmtpMessage implements BegunMessage {
  readonly #limits: MessageLimits;
  #greeted = 0;
  /** The flags and the length of the frame that begins. */
  readonly #head: number[] = [];
  /** Bytes of the frame's body that are still to come. */
  #left = 0;
  #isLast = true;
  #isMessage = false;
  #frames = 0;
  #bytes = 0;
  /** Of the command that has begun and not ended. */
  #commandBytes = 0;
  #ended = 0;

  constructor(limits: MessageLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes + this.#commandBytes;
  }

  get ended(): number {
    return this.#ended;
  }

  /** Reads what has arrived. Returns why the connection must end, or null. */
  take(chunk: Uint8Array): string | null {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left > 0) {
        const passed = Math.min(this.#left, chunk.length - at);
        at += passed;
        this.#left -= passed;
        if (this.#isMessage) this.#bytes += passed;
        else this.#commandBytes += passed;
        if (this.#left === 0) this.#frameEnded();
        continue;
      }
      const byte = chunk[at++]!;
      const fault = this.#greeted < GREETING_BYTES ? greetingFault(byte, this.#greeted++) : this.#headFault(byte);
      if (fault !== null) return fault;
    }
    return null;
  }

  #headFault(byte: number): string | null {
    const [flags = byte] = this.#head;
    if (this.#head.push(byte) === 1 && (byte & ~FLAG.known) !== 0) return OTHER_PROTOCOL;
    if (this.#head.length < ((flags & FLAG.long) === 0 ? 2 : 9)) return null;
    const size = this.#head.slice(1).reduce((sum, each) => sum * 256 + each, 0);
    this.#head.length = 0;
    return this.#beginFault(flags, size);
  }

  #beginFault(flags: number, size: number): string | null {
    this.#isMessage = (flags & FLAG.command) === 0;
    this.#left = size;
    if (!this.#isMessage) {
      if (size > MOST_COMMAND_BYTES) return 'it sent a command that is too large';
    } else {
      this.#isLast = (flags & FLAG.more) === 0;
      this.#frames += 1;
      this.#bytes += FRAME_BYTES;
      const { frames, bytes } = this.#limits;
      if (this.#frames > frames) return `its message has more than ${frames} frames`;
      if (this.#bytes + size > bytes) return `its message is larger than ${bytes / 2 ** 20} MiB`;
    }
    if (size === 0) this.#frameEnded();
    return null;
  }

  #frameEnded(): void {
    this.#commandBytes = 0;
    // A command may stand between the frames of a message.
    if (this.#isMessage ? !this.#isLast : this.#frames > 0) return;
    this.#ended += 1;
    this.#frames = 0;
    this.#bytes = 0;
  }
}

function greetingFault(byte: number, at: number): string | null {
  const isWrong = (at === 0 && byte !== SIGNATURE_START) || (at === 9 && byte !== SIGNATURE_END) || (at === 10 && byte < LEAST_VERSION);
  return isWrong ? OTHER_PROTOCOL : null;
}
