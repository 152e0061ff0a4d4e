/**
 * The jobs of an execution server that run or wait, by client. Where there are too many, the costliest job of the client that has most gives way: neither many jobs
 * nor long ones shut out the others.
 */
import { type Client, newClient, type Turn } from '../core/limiter.ts';

export class PendingJob implements Disposable {
  readonly turn: Turn;
  readonly #gone = new AbortController();
  readonly #end: () => void;

  constructor(turn: Turn, end: () => void) {
    this.turn = turn;
    this.#end = end;
  }

  /** Aborts where the job gave way. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  giveWay(): void {
    this[Symbol.dispose]();
    this.#gone.abort();
  }

  [Symbol.dispose](): void {
    this.#end();
  }
}

interface ClientJobs {
  readonly client: Client;
  readonly jobs: Set<PendingJob>;
}

export class PendingJobs {
  readonly #most: number;
  readonly #clients = new Map<string, ClientJobs>();

  /** @param most jobs of all clients */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return [...this.#clients.values()].reduce((sum, { jobs }) => sum + jobs.size, 0);
  }

  /** A place for a job that may take this long, until it is disposed of; null if no other job gives way. */
  admit(name: string, costMs: number): PendingJob | null {
    const own = this.#clients.get(name) ?? { client: newClient(), jobs: new Set() };
    // A short job goes before a long one that has not waited as much longer.
    const dueMs = performance.now() + costMs;
    if (this.size >= this.#most) {
      const last = this.#lastOf(own, dueMs);
      if (last === null) return null;
      last.giveWay();
    }
    this.#clients.set(name, own);
    const job = new PendingJob({ client: own.client, dueMs }, () => {
      own.jobs.delete(job);
      if (own.jobs.size === 0 && this.#clients.get(name) === own) this.#clients.delete(name);
    });
    own.jobs.add(job);
    return job;
  }

  /** The job that gives way to a further one of this client. */
  #lastOf(own: ClientJobs, dueMs: number): PendingJob | null {
    const [most] = [...this.#clients.values()].toSorted((a, b) => b.jobs.size - a.jobs.size);
    const isOthers = most !== undefined && most.jobs.size > own.jobs.size + 1;
    const [last] = [...(isOthers ? most : own).jobs].toSorted((a, b) => b.turn.dueMs - a.turn.dueMs);
    return last !== undefined && (isOthers || last.turn.dueMs > dueMs) ? last : null;
  }
}
