/**
 * The messages that connections have begun and not ended, which a library holds until their last byte. Each has a time limit, and all together have a limit of bytes. Not
 * responsible for how large one may become.
 */

/** What has arrived of the message that a connection has begun. */
export interface BegunMessage {
  /** 0 between messages. */
  readonly bytes: number;
  /** Messages of the connection that have ended, which tells this one from the one before. */
  readonly ended: number;
}

export interface UnfinishedMessagesOptions<Connection> {
  /** Bytes of all of them. Beyond it the connection ends whose message has held the most for the longest time: one that an honest client sends is soon whole. */
  readonly maxBytes: number;
  /** The time from the first bytes of a message to its last, in milliseconds. */
  readonly maxMs: number;
  /** Ends the connection, whose message is forgotten. */
  readonly end: (connection: Connection, why: string, reason: 'late' | 'full') => void;
}

interface Held extends BegunMessage {
  readonly since: number;
}

export class UnfinishedMessages<Connection> {
  readonly #options: UnfinishedMessagesOptions<Connection>;
  /** The one that has waited for longest comes first. */
  readonly #held = new Map<Connection, Held>();
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: UnfinishedMessagesOptions<Connection>) {
    this.#options = options;
  }

  /** Bytes have arrived on the connection; `bytes` and `ended` are copied. */
  arrived(connection: Connection, { bytes, ended }: BegunMessage): void {
    const before = this.#held.get(connection);
    if (before?.ended !== ended || bytes === 0) this.forget(connection);
    if (bytes === 0) return;
    this.#bytes += bytes - (this.#held.get(connection)?.bytes ?? 0);
    this.#held.set(connection, { bytes, ended, since: this.#held.get(connection)?.since ?? performance.now() });
    this.#watch();
    while (this.#bytes > this.#options.maxBytes) this.#endHeaviest();
  }

  /** The connection has closed. */
  forget(connection: Connection): void {
    this.#bytes -= this.#held.get(connection)?.bytes ?? 0;
    this.#held.delete(connection);
  }

  #endHeaviest(): void {
    const now = performance.now();
    const weight = ({ bytes, since }: Held) => bytes * (now - since + 1);
    const [connection] = [...this.#held].reduce((most, each) => (weight(each[1]) > weight(most[1]) ? each : most));
    this.forget(connection);
    const mebibytes = this.#options.maxBytes / 2 ** 20;
    this.#options.end(connection, `messages that have begun take more than ${mebibytes} MiB together, and its own takes the most`, 'full');
  }

  #watch(): void {
    const [first] = this.#held.values();
    if (this.#timer !== null || first === undefined) return;
    // Bytes that arrived while the process was busy are read first.
    this.#timer = setTimeout(() => setImmediate(() => this.#endLate()), first.since + this.#options.maxMs - performance.now());
    this.#timer.unref();
  }

  #endLate(): void {
    const { maxMs, end } = this.#options;
    this.#timer = null;
    // Timers may fire a millisecond early.
    const latest = performance.now() - maxMs + 1;
    for (const [connection, { since }] of this.#held) {
      if (since > latest) break;
      this.forget(connection);
      end(connection, `its message did not end within ${maxMs / 1000} s`, 'late');
    }
    this.#watch();
  }
}
