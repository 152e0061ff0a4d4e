import type { AdapterOptions } from '../../../../src/trainer/gradients/adapter-options.ts';
import { TorchBackend, type TorchBackendOptions } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import type { RandomVlm } from './random-vlm.ts';
import { forkedPython, NANO_BASE, torchPython } from './torch-python.ts';

const ADAPTER: AdapterOptions = {
  rank: 3,
  alpha: 12,
  targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  seed: 1,
  initial: null,
};

export interface NanoOptions {
  readonly adapter?: Partial<AdapterOptions>;
  readonly options?: Partial<TorchBackendOptions>;
}

/** The torch worker over a random vision-language model, on one thread. */
export function openVlm(
  { model: modelPath, folder }: Pick<RandomVlm, 'model' | 'folder'>,
  { adapter, options }: NanoOptions = {},
): Promise<TorchBackend> {
  return openNano({ adapter: adapter ?? {}, options: { modelPath, images: { folder }, ...options } });
}

/** The torch worker over the nano model, on one thread. */
export function openNano({ adapter, options }: NanoOptions = {}): Promise<TorchBackend> {
  return TorchBackend.start(nanoOptions({ adapter: adapter ?? {}, options: options ?? {} }));
}

export function nanoOptions({ adapter, options }: NanoOptions): TorchBackendOptions {
  return {
    python: options?.python ?? (torchPython.path === null ? 'no-python' : forkedPython()),
    modelPath: NANO_BASE,
    adapter: { ...ADAPTER, ...adapter },
    devices: ['cpu'],
    dtype: 'auto',
    gradientCheckpointing: false,
    threads: 1,
    timeoutMs: 240_000,
    logPath: null,
    signal: new AbortController().signal,
    ...options,
    env: { ...process.env, HF_HUB_OFFLINE: '1', ...options?.env },
  };
}
