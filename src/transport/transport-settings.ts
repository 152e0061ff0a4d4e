/**
 * The settings of every request of a run, whoever makes it: the policy's client, a role's, a retriever that an environment opened. They belong to the
 * asynchronous call that sets them, so that two runs in one process keep theirs apart.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { WaitMeter } from './wait-meter.ts';

export interface TransportSettings {
  /** Environment variables, of which a new client reads those of proxies. @default none, so that requests go straight to their server */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The longest wait for a server that refuses for its rate limit, in milliseconds. @default 3600000 */
  readonly maxWaitMs: number;
  /** The waits for rate limits so far. */
  readonly waits: WaitMeter;
  /** True if errors mark what they quote of a server's answer (`quotation`). @default false */
  readonly marksQuotations: boolean;
  /** The caller's names of its settings, for errors. @default those of the library's options */
  readonly names: { readonly maxWait: string; readonly maxConcurrent: string };
}

/** One hour. */
const DEFAULT_MAX_WAIT_MS = 3_600_000;

const DEFAULTS: TransportSettings = {
  variables: {},
  maxWaitMs: DEFAULT_MAX_WAIT_MS,
  waits: new WaitMeter(),
  marksQuotations: false,
  names: { maxWait: 'maxWaitMs', maxConcurrent: 'maxConcurrent' },
};

const storage = new AsyncLocalStorage<TransportSettings>();

/** The settings of the running call. */
export function transportSettings(): TransportSettings {
  return storage.getStore() ?? DEFAULTS;
}

/** Calls `run` with these settings; those that are left out stay as they are. They hold for all that `run` starts, also after it has returned. */
export function withTransport<T>(settings: Partial<TransportSettings>, run: () => T): T {
  return storage.run({ ...transportSettings(), ...settings }, run);
}
