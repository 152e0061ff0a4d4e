/**
 * A policy behind the Tinker API, by token ids. Text is rendered and decoded on this machine, by the model's own tokenizer. A version of the weights is a `tinker://` path; the
 * version with the base's name is the base.
 */
import { CancelledError, PolicyError } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import type { SamplingSession } from '../tinker/service/sampling-session.ts';
import type { LocalTokenizer } from '../tokenizer/local-tokenizer.ts';
import type { PolicyCapabilities, PolicyClient, PolicyLease } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';
import { TinkerLease } from './tinker-lease.ts';

export interface TinkerTokensOptions {
  readonly sampling: SamplingSession;
  readonly versions: PolicyVersions;
  readonly capabilities: Omit<PolicyCapabilities, 'kind'>;
  readonly tokenizer: LocalTokenizer;
  /** Ids that end a text, by the model's configuration. */
  readonly endIds: readonly number[];
  /** The service's name of the base. */
  readonly baseModel: string;
}

export class TinkerTokensClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #options: TinkerTokensOptions;
  readonly #closed = new AbortController();

  constructor(options: TinkerTokensOptions) {
    this.#options = options;
    this.name = options.baseModel;
    this.capabilities = { ...options.capabilities, kind: 'tokens' };
  }

  async lease(
    signal: AbortSignal,
    { random = null, like }: { readonly random?: Random | null; readonly like?: PolicyLease } = {},
  ): Promise<TinkerLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#closed.signal.aborted) throw new PolicyError('The client is closed');
    const version = this.#options.versions.acquire(like?.policy);
    return new TinkerLease({ ...this.#options, maxModelLen: this.capabilities.maxModelLen, version, random, closed: this.#closed.signal });
  }

  /** The sampling session stays open: the run owns it. */
  async close(): Promise<void> {
    this.#closed.abort(new CancelledError('The client was closed before the service answered'));
  }
}
