/** Policy servers that callers name. Each is probed once, and its connections are kept for a while, because callers come back with every batch. */
import type { PolicyClient, Sampling } from '../../clients/policy-client.ts';
import { untilAborted } from '../../core/abort.ts';
import { CancelledError } from '../../core/errors.ts';
import type { RoleModels } from '../../core/model.ts';
import { AllowedPolicies, type AllowedPoliciesOptions } from './allowed-policies.ts';

export interface PolicyAddress {
  readonly baseUrl: string;
  /** Null: the server's only model. */
  readonly model: string | null;
  /** Variable of this process that holds the server's key; null sends none. */
  readonly keyVariable: string | null;
  /** True if the variable must hold a key; otherwise no key is sent if it holds none. @default true */
  readonly isKeyNeeded?: boolean;
  /** Sent with every request. @default none */
  readonly headers?: Readonly<Record<string, string>>;
  /** @default 'auto' */
  readonly kind: 'auto' | 'tokens' | 'chat';
  /** Version of the weights, for the record. */
  readonly version: number;
  /** Sent with requests by token ids. @default none */
  readonly cacheSalt?: string;
}

export interface ServedPolicy extends AsyncDisposable {
  readonly client: PolicyClient;
  /** The models of the environment's roles, which may be this policy; null if it has none. */
  readonly models: RoleModels | null;
}

export interface ServedPoliciesOptions extends AllowedPoliciesOptions {
  /** Probes the server and opens a client. Throws ConfigError or PolicyError. */
  readonly open: (address: PolicyAddress, signal: AbortSignal) => Promise<ServedPolicy>;
  /** Reads sampling parameters as OpenAI's API names them, for a policy of that kind. Throws ConfigError. */
  readonly readSampling: (
    fields: Readonly<Record<string, unknown>>,
    kind?: PolicyAddress['kind'],
  ) => { readonly sampling: Sampling; readonly maxTokens: number | null };
  /** The time for which an unused policy stays open, in milliseconds. @default 60000 */
  readonly keepMs?: number;
}

/** Above this number a policy closes as soon as no request uses it. */
const MOST_KEPT = 64;

interface Opened {
  readonly policy: Promise<ServedPolicy>;
  users: number;
  timer: NodeJS.Timeout | null;
}

export class ServedPolicies {
  readonly #options: ServedPoliciesOptions;
  readonly #opened = new Map<string, Opened>();
  readonly #closed = new AbortController();
  readonly #allowed: AllowedPolicies;

  /** Throws ConfigError for an allowed host or variable that is none. */
  constructor(options: ServedPoliciesOptions) {
    this.#options = options;
    this.#allowed = new AllowedPolicies(options);
  }

  readSampling(fields: Readonly<Record<string, unknown>>, kind?: PolicyAddress['kind']): ReturnType<ServedPoliciesOptions['readSampling']> {
    return this.#options.readSampling(fields, kind);
  }

  /** Opens the policy, or shares it, until `work` has ended. Throws ConfigError for an address that is not allowed. */
  async use<T>(address: PolicyAddress, signal: AbortSignal, work: (policy: ServedPolicy) => Promise<T>): Promise<T> {
    this.assertAllowed(address);
    const { baseUrl, model, keyVariable, headers = {}, kind, version, cacheSalt = null } = address;
    const key = JSON.stringify([baseUrl, model, keyVariable, headers, kind, version, cacheSalt]);
    const opened = this.#opened.get(key) ?? this.#open(key, address);
    opened.users += 1;
    if (opened.timer !== null) clearTimeout(opened.timer);
    opened.timer = null;
    try {
      return await work(await untilAborted(opened.policy, signal));
    } finally {
      opened.users -= 1;
      if (opened.users === 0) this.#release(key, opened);
    }
  }

  /** Throws ConfigError unless a caller may name this server and this key. */
  assertAllowed({ baseUrl, keyVariable }: Pick<PolicyAddress, 'baseUrl' | 'keyVariable'>): void {
    this.#allowed.assertServer(baseUrl);
    if (keyVariable !== null) this.#allowed.assertVariable(keyVariable, 'api_key_var', baseUrl);
  }

  /** Throws ConfigError unless a caller may have the value of this variable sent to this server. `name` is that of the request's field. */
  assertVariableAllowed(variable: string, name: string, baseUrl: string): void {
    this.#allowed.assertVariable(variable, name, baseUrl);
  }

  async close(): Promise<void> {
    this.#closed.abort(new CancelledError('The server is stopping'));
    await Promise.allSettled([...this.#opened].map(([key, opened]) => this.#dispose(key, opened)));
  }

  #open(key: string, address: PolicyAddress): Opened {
    const policy = this.#options.open(address, this.#closed.signal);
    const opened: Opened = { policy, users: 0, timer: null };
    this.#opened.set(key, opened);
    // The next caller asks again.
    policy.catch(() => this.#opened.delete(key));
    return opened;
  }

  #release(key: string, opened: Opened): void {
    if (this.#opened.get(key) !== opened) return;
    if (this.#opened.size > MOST_KEPT) return void this.#dispose(key, opened).catch(() => {});
    opened.timer = setTimeout(() => void this.#dispose(key, opened).catch(() => {}), this.#options.keepMs ?? 60_000);
    opened.timer.unref();
  }

  async #dispose(key: string, opened: Opened): Promise<void> {
    if (opened.timer !== null) clearTimeout(opened.timer);
    if (this.#opened.get(key) === opened) this.#opened.delete(key);
    await (await opened.policy)[Symbol.asyncDispose]();
  }
}
