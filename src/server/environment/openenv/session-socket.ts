/** One WebSocket of a session: its frames are answered one after the other, and the number of waiting frames is bounded. */
import type { RawData, WebSocket } from 'ws';
import { errorFrame, frameAnswer } from './frame-answer.ts';
import type { HeldBytes } from '../../held-bytes.ts';
import type { OpenEnvSession } from './open-env-session.ts';
import { WebSocketMessage } from './web-socket-message.ts';
import { WireError } from './wire-error.ts';

export interface SessionSocketOptions {
  readonly session: OpenEnvSession;
  /** The reason why the session is refused, with the answer to its first frame; null for one that has a place. */
  readonly refusal: WireError | null;
  /** The time for which a refused client may wait before its first frame, in milliseconds. */
  readonly refusedMs: number;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
  readonly onClosed: (socket: SessionSocket) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Clients await each answer, so no real client has more than a few waiting frames. */
const MOST_WAITING = 64;
const MOST_WAITING_BYTES = 4 * 2 ** 20;

/** Status codes of RFC 6455. */
const CLOSE = { done: 1000, goingAway: 1001, tooMuch: 1008, tryLater: 1013 } as const;

const BINARY = Symbol('binary');

export class SessionSocket {
  /** The time at which the client last sent anything, pongs included. */
  lastHeardAt = performance.now();
  readonly isRefused: boolean;
  /** The message that is not whole yet. */
  readonly begun = new WebSocketMessage();
  readonly #socket: WebSocket;
  readonly #options: SessionSocketOptions;
  readonly #waiting: { readonly frame: string | typeof BINARY; readonly bytes: number }[] = [];
  readonly #refusedTimer: NodeJS.Timeout | null;
  #waitingBytes = 0;
  /** Of the message that is not whole yet. */
  #partBytes = 0;
  /** Bytes of this socket in the account: parts, frames that wait, and the answer under way. */
  #held = 0;
  #isClosed = false;
  /** The time of the last answer to a reset or step: a pong, a question for the state or a faulty frame uses nothing. */
  #lastUsedAt = performance.now();
  #isWorking = false;
  #isLeaving = false;

  constructor(socket: WebSocket, options: SessionSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    this.isRefused = options.refusal !== null;
    this.#refusedTimer = this.isRefused ? setTimeout(() => this.#leave(CLOSE.tryLater), options.refusedMs) : null;
    const heard = () => (this.lastHeardAt = performance.now());
    socket.on('message', (data, isBinary) => {
      heard();
      this.#arrived(data, isBinary);
    });
    socket.on('pong', heard);
    socket.on('ping', heard);
    // A frame that is too large or malformed: the library closes the socket with the right status code.
    socket.on('error', () => {});
    socket.once('close', () => {
      if (this.#refusedTimer !== null) clearTimeout(this.#refusedTimer);
      this.#forget();
      this.#hold(-this.#held);
      this.#isClosed = true;
      options.onClosed(this);
    });
  }

  /** The time since which nobody has used the session; null if it is in use, or has no place to give back. */
  get idleSince(): number | null {
    return this.#isWorking || !this.hasPlace ? null : this.#lastUsedAt;
  }

  get hasPlace(): boolean {
    return !this.isRefused && !this.#isLeaving;
  }

  /** Bytes have arrived, whether or not they complete a message. A client whose part of a message has no room is cut off. */
  received(chunk: Uint8Array): void {
    this.begun.take(chunk);
    this.#hold(this.begun.bytes - this.#partBytes);
    this.#partBytes = this.begun.bytes;
    if (!this.#options.held.makeRoom()) this.cut();
  }

  /** Ends a session whose message does not end. */
  late(why: string): void {
    this.#leave(CLOSE.tooMuch, new WireError('SESSION_ERROR', `The server ends the session: ${why}. Send each frame at once.`));
  }

  ping(): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  /** Says goodbye. */
  goAway(): void {
    this.#leave(CLOSE.goingAway);
  }

  /** Cuts the connection. */
  cut(): void {
    this.#socket.terminate();
  }

  #arrived(data: RawData, isBinary: boolean): void {
    if (this.#isLeaving) return;
    const { refusal } = this.#options;
    if (refusal !== null) return this.#leave(CLOSE.tryLater, refusal);
    const bytes = (data as Buffer).byteLength;
    if (this.#waiting.length >= MOST_WAITING || this.#waitingBytes + bytes > MOST_WAITING_BYTES) {
      const message = 'Too many frames wait for their answers. Await the answer to each frame before the next one.';
      return this.#leave(CLOSE.tooMuch, new WireError('SESSION_ERROR', message));
    }
    this.#waiting.push({ frame: isBinary ? BINARY : (data as Buffer).toString('utf8'), bytes });
    this.#waitingBytes += bytes;
    this.#hold(2 * bytes);
    if (!this.#isWorking) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const answer = await this.#answer(next.frame);
      this.#waitingBytes -= next.bytes;
      this.#hold(-2 * next.bytes);
      if (answer === null) this.#leave(CLOSE.done);
      // A client that does not read gets no further answers.
      else await this.#send(answer);
      if (answer?.startsWith('{"type":"observation"') === true) this.#lastUsedAt = performance.now();
    }
    this.#isWorking = false;
  }

  async #answer(frame: string | typeof BINARY): Promise<string | null> {
    if (frame === BINARY) return errorFrame(new WireError('INVALID_JSON', 'The frame is binary. Send JSON as a text frame.'));
    return frameAnswer(this.#options.session, frame, this.#options.onFailure);
  }

  #send(text: string): Promise<void> {
    return new Promise((resolve) => {
      if (this.#socket.readyState !== this.#socket.OPEN) return resolve();
      const bytes = 2 * text.length;
      this.#hold(bytes);
      this.#socket.send(text, () => {
        this.#hold(-bytes);
        resolve();
      });
    });
  }

  #hold(change: number): void {
    if (this.#isClosed) return;
    this.#held += change;
    this.#options.held.hold(change);
  }

  #leave(code: number, error?: WireError): void {
    if (this.#isLeaving) return;
    this.#forget();
    if (error !== undefined) void this.#send(errorFrame(error));
    this.#socket.close(code);
  }

  /** From here on no frame is answered, and the episode is free. */
  #forget(): void {
    this.#isLeaving = true;
    this.#waiting.length = 0;
    this.#options.session.close();
  }
}
