/**
 * Brings replicas back while the others serve: waits until one that rests answers, gives it the current version, and lets it serve again. Reports how many serve,
 * and waits until enough of them do.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { cancelled, onAbort, untilAborted } from '../../core/abort.ts';
import { CancelledError, PolicyError, TrainingError, type VfError } from '../../core/errors.ts';
import type { TrainingEvent } from '../training-observer.ts';
import { asVfError, isUnreachable } from './publish-failure.ts';
import type { PolicyServers, WeightPublisher } from '../weight-publisher.ts';

export interface ReplicaKeeperOptions {
  readonly servers: PolicyServers;
  readonly versions: PolicyVersions;
  readonly publisher: Pick<WeightPublisher, 'catchUp'>;
  /** Number of replicas that must serve. */
  readonly quorum: number;
  /** A replica does not catch up while a version is being published. */
  readonly turns: ServingTurns;
  /** The time for which the run waits for a replica that answers but does not serve the version. @default half an hour */
  readonly patienceMs?: number;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
  /** Ends the work in the background. */
  readonly signal: AbortSignal;
}

/** Pauses between two attempts to bring a replica back. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
/** A replica that is checked and does not answer for so long is reported. */
const SILENT_MS = 1000;
const PATIENCE_MS = 30 * 60_000;

export class ReplicaKeeper {
  readonly #options: ReplicaKeeperOptions;
  /** Replicas that are being brought back. */
  readonly #returning = new Map<string, Promise<void>>();
  /** Replicas that will not come back by waiting, according to what is known. */
  readonly #faults = new Map<string, VfError>();
  #changed = Promise.withResolvers<void>();
  /** Number of times that the current version was given to a replica that had lost it. */
  #given = 0;

  constructor(options: ReplicaKeeperOptions) {
    this.#options = options;
    const { versions, servers, signal } = options;
    const watching = [
      versions.replicas.supervise((replica, why) => this.#onRest(replica, why)),
      servers.watch?.((replica, why) => versions.replicas.rest(replica, why)),
    ];
    onAbort(signal, () => watching.forEach((each) => each?.[Symbol.dispose]()));
  }

  /** Number of times that the current version was given to a replica that had lost it. */
  get given(): number {
    return this.#given;
  }

  /**
   * Checks every replica and resolves once enough of them serve the current version. Throws PolicyError if too few answer and waiting does not help,
   * TrainingError if too few can be given the version.
   * @param except replicas that do not count: the next version will not be theirs
   */
  async check(signal: AbortSignal, except: readonly string[] = []): Promise<void> {
    const { servers, versions, quorum } = this.#options;
    const counted = servers.replicas.filter((replica) => !except.includes(replica));
    for (const replica of counted) versions.replicas.rest(replica, null);
    while (this.#serving(counted) < quorum) {
      const faults = counted.flatMap((replica) => (versions.replicas.isResting(replica) ? (this.#faults.get(replica) ?? []) : []));
      const [fault] = faults;
      if (fault !== undefined && counted.length - faults.length < quorum) throw this.#hopeless(fault);
      await untilAborted(this.#changed.promise, signal, () => cancelled(signal, 'Stopped while waiting for the policy servers'));
    }
  }

  /** Number of replicas that serve the current version. */
  #serving(among: readonly string[]): number {
    const { versions } = this.#options;
    return among.filter((replica) => versions.replicas.serves(replica, versions.current().model)).length;
  }

  /** `1 of 2 replicas serve version 3`. */
  get text(): string {
    const { servers, versions } = this.#options;
    const { version } = versions.current();
    return `${this.#serving(servers.replicas)} of ${servers.replicas.length} replicas serve version ${version}`;
  }

  /** Resolves when nothing is done in the background any more, after the signal has aborted. */
  async settled(): Promise<void> {
    await Promise.all(this.#returning.values());
  }

  #onRest(replica: string, why: string | null): void {
    if (this.#returning.has(replica)) return;
    const task = this.#bringBack(replica, why).finally(() => {
      this.#returning.delete(replica);
      this.#change();
    });
    this.#returning.set(replica, task);
  }

  /** Never rejects. @param why null if the replica is only checked: then nothing is reported if it answers soon. */
  async #bringBack(replica: string, why: string | null): Promise<void> {
    const { signal, patienceMs = PATIENCE_MS } = this.#options;
    const lost = new LostReport((text) =>
      this.#report({ kind: 'replica_lost', message: `${replica} gets no requests until it is back: ${text}. ${this.text}` }),
    );
    if (why !== null) lost.say(why);
    // If there is a single server, the caller that waits for it reports this.
    const timer = this.#isOnly ? undefined : setTimeout(() => lost.sayFirst('it does not answer'), SILENT_MS);
    const startMs = performance.now();
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const result = await this.#tryOnce(replica);
      // A version was published meanwhile: the replica needs that one.
      if (result === null) continue;
      if (result.ok) this.#onReturn(replica, { isLoaded: result.isLoaded, isReported: lost.isSaid });
      if (result.ok || signal.aborted) break;
      const { message, retryable } = result.reason;
      if (!retryable || performance.now() - startMs > patienceMs) this.#faults.set(replica, result.reason);
      if (retryable) lost.sayFirst(message);
      else lost.say(message);
      this.#change();
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
    clearTimeout(timer);
  }

  /** Null if it gave way to a publish. */
  async #tryOnce(replica: string) {
    const { servers, publisher, turns, signal } = this.#options;
    try {
      await servers.revive(replica, signal);
      const result = await turns.together((inner) => publisher.catchUp(replica, inner), signal);
      // It answers /health and computes nothing: waiting does not cure that.
      if (result?.ok === false && isUnreachable(result.reason)) await servers.renew?.(replica, result.reason.message, signal);
      return result;
    } catch (error) {
      return { ok: false, reason: asVfError(error) } as const;
    }
  }

  #onReturn(replica: string, { isLoaded, isReported }: { readonly isLoaded: boolean; readonly isReported: boolean }): void {
    const { versions } = this.#options;
    const { version, model } = versions.current();
    this.#faults.delete(replica);
    if (isLoaded) this.#given++;
    if (!isReported && (!isLoaded || this.#isOnly)) return;
    const how = isLoaded ? `version ${version} was loaded there again as ${model} and compared` : `it still serves version ${version}`;
    this.#report({ kind: 'replica_recovered', message: `${replica} serves again: ${how}. ${this.text}` });
  }

  /** An event that cannot be written ends the run at the loop's next write, not here in the background. */
  #report(event: Omit<TrainingEvent, 'step'>): void {
    try {
      this.#options.report(event);
    } catch {
      // The loop throws the same error.
    }
  }

  get #isOnly(): boolean {
    return this.#options.servers.replicas.length === 1;
  }

  #hopeless(fault: VfError): VfError {
    if (fault instanceof PolicyError) return fault;
    const { version } = this.#options.versions.current();
    return new TrainingError(`Cannot serve version ${version} again: ${fault.message}`, { cause: fault });
  }

  /** Wakes up the callers that wait for a quorum. */
  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

/** Reports why a replica is lost, each reason once. */
class LostReport {
  readonly #report: (text: string) => void;
  #last: string | null = null;

  constructor(report: (text: string) => void) {
    this.#report = report;
  }

  get isSaid(): boolean {
    return this.#last !== null;
  }

  say(text: string): void {
    if (text !== this.#last) this.#report(text);
    this.#last = text;
  }

  /** Only if nothing was reported yet. */
  sayFirst(text: string): void {
    if (this.#last === null) this.say(text);
  }
}

/** Orders the work that changes what the replicas serve: a publish runs alone, replicas catch up side by side. */
export class ServingTurns {
  #last: Promise<void> = Promise.resolve();
  readonly #together = new Set<Promise<unknown>>();
  #interrupted = new AbortController();

  /** Runs after all earlier calls and before all later ones. `interrupts` cancels the calls that run `together`, so that a publish does not wait for a slow replica. */
  async alone<T>(call: () => Promise<T>, { interrupts }: { readonly interrupts: boolean }): Promise<T> {
    const [before, done] = [this.#last, Promise.withResolvers<void>()];
    this.#last = done.promise;
    if (interrupts) {
      this.#interrupted.abort(new CancelledError('Stopped because a version is published'));
      this.#interrupted = new AbortController();
    }
    try {
      await before;
      await Promise.allSettled(this.#together);
      return await call();
    } finally {
      done.resolve();
    }
  }

  /** Runs at the same time as other calls of its kind. Resolves with null if a publish cancelled it; `call` must end soon after its signal aborts. */
  async together<T>(call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T | null> {
    for (let before = null; before !== this.#last;) await (before = this.#last);
    const { signal: interrupted } = this.#interrupted;
    const running = call(AbortSignal.any([signal, interrupted]));
    this.#together.add(running);
    try {
      return await running;
    } catch (error) {
      if (interrupted.aborted && !signal.aborted) return null;
      throw error;
    } finally {
      this.#together.delete(running);
    }
  }
}
