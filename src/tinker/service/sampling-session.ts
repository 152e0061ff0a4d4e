/** A session that samples. One that the service has forgotten, as after its restart, is opened again: what is sampled from is kept by name. */
import { cancelled, throwIfAborted, untilAborted } from '../../core/abort.ts';
import type { Samples } from '../wire/samples.ts';
import { type SampleAsked, ServiceSession, type ServiceSessionOptions } from './service-session.ts';
import { TinkerError } from './tinker-error.ts';

export class SamplingSession implements AsyncDisposable {
  readonly #options: Omit<ServiceSessionOptions, 'signal'>;
  readonly #ended = new AbortController();
  #current: Promise<ServiceSession> | null = null;

  constructor(options: Omit<ServiceSessionOptions, 'signal'>) {
    this.#options = options;
  }

  /** The service's URL without secrets. */
  get url(): string {
    return this.#options.connection.url;
  }

  /** Rejects with TinkerError, `isGone` if the service does not have the weights. */
  async sample(asked: SampleAsked): Promise<Samples> {
    const opened = this.#session();
    const session = await this.#waited(opened, asked.signal);
    try {
      return await session.sample(asked);
    } catch (error) {
      if (!(error instanceof TinkerError) || !error.isGone) throw error;
      throwIfAborted(asked.signal);
      // Other samples may have found the same.
      if (this.#current === opened) this.#forget(session);
      return await (await this.#waited(this.#session(), asked.signal)).sample(asked);
    }
  }

  /** What nothing samples from any more goes, where the service can delete it. */
  async retire(path: string, signal: AbortSignal): Promise<void> {
    const session = await this.#current?.catch(() => null);
    session?.forgetSampler(path);
    await this.#options.connection.delete(path, signal);
  }

  /** Others wait for it too, so that one caller's end ends its own wait only. */
  #waited(opened: Promise<ServiceSession>, signal: AbortSignal): Promise<ServiceSession> {
    return untilAborted(opened, signal, () => cancelled(signal));
  }

  #session(): Promise<ServiceSession> {
    if (this.#current !== null) return this.#current;
    const opened = ServiceSession.open({ ...this.#options, signal: this.#ended.signal });
    this.#current = opened;
    opened.catch(() => {
      if (this.#current === opened) this.#current = null;
    });
    return opened;
  }

  #forget(session: ServiceSession): void {
    this.#current = null;
    void session[Symbol.asyncDispose]().catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    const session = await this.#current?.catch(() => null);
    await session?.[Symbol.asyncDispose]();
  }
}
