import type { AdapterOptions } from '../../../../src/trainer/gradients/adapter-options.ts';
import { EmbeddedBackend, type EmbeddedStartOptions } from '../../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { ALL_TARGETS, NANO_BASE } from './nano-adapter.ts';

const ADAPTER: AdapterOptions = { rank: 3, alpha: 12, targets: ALL_TARGETS, seed: 1, initial: null };

export interface NanoOptions {
  readonly adapter?: Partial<AdapterOptions>;
  readonly options?: Partial<EmbeddedStartOptions>;
}

/** The embedded backend over the nano model, on two threads. */
export function openNano({ adapter, options }: NanoOptions = {}): Promise<EmbeddedBackend> {
  const { signal } = new AbortController();
  return EmbeddedBackend.start({ modelPath: NANO_BASE, threads: 2, signal, ...options, adapter: { ...ADAPTER, ...adapter } });
}
