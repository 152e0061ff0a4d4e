/** Sessions of clients: alive as long as they say so. What a session holds is given up when it ends or falls silent. */
import { randomBytes } from 'node:crypto';
import { TinkerRefusal } from './tinker-refusal.ts';

/** Clients beat every 10 seconds. */
const SILENT_MS = 5 * 60_000;
const [MOST_SESSIONS, LOOK_MS] = [1_000, 15_000] as const;

interface Session {
  lastMs: number;
  isEnded: boolean;
}

export interface SessionsOptions {
  /** Called once for each session that ends. */
  readonly onEnd: (sessionId: string) => void;
  /** The time after which a silent session ends. @default five minutes */
  readonly silentMs?: number;
}

export class Sessions implements Disposable {
  readonly #options: SessionsOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: SessionsOptions) {
    this.#options = options;
    const { silentMs = SILENT_MS } = options;
    this.#timer = setInterval(() => this.#endSilent(silentMs), Math.min(LOOK_MS, silentMs));
    this.#timer.unref();
  }

  /** Returns its id. Throws TinkerRefusal (429) if there are too many. */
  create(): string {
    const alive = [...this.#sessions.values()].filter(({ isEnded }) => !isEnded).length;
    if (alive >= MOST_SESSIONS)
      throw new TinkerRefusal(429, `${MOST_SESSIONS} sessions are open already; finish some, or wait until they fall silent`, { retryable: true });
    const id = `session-${randomBytes(6).toString('hex')}`;
    this.#sessions.set(id, { lastMs: performance.now(), isEnded: false });
    return id;
  }

  /** Throws as `assertAlive`. */
  beat(id: string): void {
    this.assertAlive(id).lastMs = performance.now();
  }

  /** Throws TinkerRefusal: 404 for an unknown session, 410 for one that has ended. */
  assertAlive(id: string): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new TinkerRefusal(404, `There is no session ${JSON.stringify(id.slice(0, 64))} at this server; create one`);
    if (session.isEnded) throw new TinkerRefusal(410, `The session ${id} has ended; create another and load the last checkpoint`);
    return session;
  }

  /** Ending twice changes nothing. Throws TinkerRefusal (404) for an unknown session. */
  finish(id: string): void {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new TinkerRefusal(404, `There is no session ${JSON.stringify(id.slice(0, 64))} at this server`);
    this.#end(id, session);
  }

  get ids(): readonly string[] {
    return [...this.#sessions].flatMap(([id, { isEnded }]) => (isEnded ? [] : [id]));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #endSilent(silentMs: number): void {
    const now = performance.now();
    for (const [id, session] of this.#sessions) {
      if (!session.isEnded && now - session.lastMs > silentMs) this.#end(id, session);
      // An ended one is remembered for a while, so that its client learns of it.
      else if (session.isEnded && now - session.lastMs > 12 * silentMs) this.#sessions.delete(id);
    }
  }

  #end(id: string, session: Session): void {
    if (session.isEnded) return;
    session.isEnded = true;
    session.lastMs = performance.now();
    this.#options.onEnd(id);
  }
}
