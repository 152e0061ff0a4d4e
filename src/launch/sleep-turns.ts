/**
 * Lets a vLLM and a worker take turns on one GPU by vLLM's sleep mode, in which it moves its weights to main memory and drops its cache. Facts are about
 * vLLM 0.32.0, which needs --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1 for it.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { cancelled, untilAborted } from '../core/abort.ts';
import { CancelledError, PolicyError } from '../core/errors.ts';
import { HttpEndpoint, httpErrorText, statusOptions } from '../transport/http-endpoint.ts';
import { serverRoot } from '../core/server-url.ts';

export interface SleepTurnsOptions {
  /** Up to and including `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Deadline of one change; weights move through main memory. @default 120000 */
  readonly timeoutMs?: number;
}

/** A connection that breaks is tried again before its server counts as gone. */
const PAUSES_MS = [100, 1000];

export class SleepTurns implements AsyncDisposable {
  readonly #endpoint: HttpEndpoint;
  readonly #timeoutMs: number;
  #isAsleep = false;
  /** Resolved while the server is awake. */
  #awake = Promise.withResolvers<void>();
  #last: Promise<void> = Promise.resolve();

  constructor({ baseUrl, apiKey, timeoutMs = 120_000 }: SleepTurnsOptions) {
    this.#timeoutMs = timeoutMs;
    this.#awake.resolve();
    this.#endpoint = new HttpEndpoint({
      baseUrl: serverRoot(baseUrl),
      headers: { authorization: `Bearer ${apiKey}` },
      connections: 1,
      makeError: (message, options) => new PolicyError(message, options),
    });
  }

  get isAsleep(): boolean {
    return this.#isAsleep;
  }

  /** Resolves once the server sleeps. Does nothing if it already sleeps. Requests in flight are aborted. */
  sleep(signal: AbortSignal): Promise<void> {
    return this.#change(async () => {
      if (this.#isAsleep) return;
      // A server that is gone holds no memory; the next caller that samples finds out.
      await this.#postUnlessGone('/sleep?level=1', signal);
      this.#isAsleep = true;
      this.#awake = Promise.withResolvers();
    });
  }

  /**
   * Resolves once the server samples again. If it sleeps, `before` runs first, in which the worker frees its memory. A server that is gone counts as awake: the next
   * caller that samples finds out, and the server may then be started again.
   */
  wake(signal: AbortSignal, before: () => Promise<void> = async () => {}): Promise<void> {
    return this.#change(async () => {
      if (!this.#isAsleep) return;
      await before();
      // A server that was restarted meanwhile is awake; it accepts this request too.
      await this.#postUnlessGone('/wake_up', signal);
      this.#isAsleep = false;
      this.#awake.resolve();
    });
  }

  /** Runs `work` while the server is awake, and keeps it awake until the work ends. It does not wake the server, because the worker may need the memory now. */
  async whileAwake<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      await untilAborted(this.#awake.promise, signal, () => cancelled(signal, 'Stopped while vLLM slept'));
      let done: { readonly value: T } | null = null;
      await this.#change(async () => {
        if (!this.#isAsleep) done = { value: await work() };
      });
      if (done !== null) return (done as { readonly value: T }).value;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#endpoint.close();
  }

  /** One change after the other; a failure does not affect the next. */
  #change(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #postUnlessGone(path: string, signal: AbortSignal): Promise<void> {
    for (const pauseMs of [...PAUSES_MS, null]) {
      try {
        return await this.#post(path, signal);
      } catch (error) {
        if (!isUnreachable(error)) throw error;
        if (pauseMs !== null) await pause(pauseMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  async #post(path: string, signal: AbortSignal): Promise<void> {
    const late = AbortSignal.timeout(this.#timeoutMs);
    try {
      const response = await this.#endpoint.request({ method: 'POST', path, signal: AbortSignal.any([signal, late]) });
      if (response.status === 200) return;
      const said = httpErrorText('POST', `${this.#endpoint.url}${path}`, response.status, response.body, this.#endpoint.hide);
      const remedy = response.status === 404 ? '. The server has no sleep mode: start it with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1' : '';
      throw new PolicyError(`${said}${remedy}`, statusOptions(response));
    } catch (error) {
      if (signal.aborted) throw new CancelledError('Stopped while vLLM was put to sleep or woken', { cause: error });
      if (late.aborted) throw new PolicyError(`${this.#endpoint.url}${path} did not answer within ${this.#timeoutMs / 1000} s`, { cause: error });
      throw error;
    }
  }
}

function isUnreachable(error: unknown): boolean {
  return error instanceof PolicyError && error.status === null && error.retryable;
}
