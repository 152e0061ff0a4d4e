/** Compiles the kernels, and instantiates them in a thread. It does not know where their bytes come from. */
import type { Kernels } from './kernels.ts';
import { type EngineMemory, type KernelsModule, webAssembly } from './web-assembly.ts';

/** `relaxed` uses the fused multiply-add and is about twice as fast; `plain` runs wherever SIMD does. Their results differ in the last bits. */
export type KernelsBuild = 'relaxed' | 'plain';

export interface LoadedKernels {
  readonly module: KernelsModule;
  readonly build: KernelsBuild;
}

/** The kernels over `memory`, for the calling thread. Many threads may instantiate a module over one memory, because it keeps no state there. */
export function instantiateKernels(module: KernelsModule, memory: EngineMemory): Kernels {
  const { exports } = new webAssembly.Instance(module, { env: { memory } });
  return exports as unknown as Kernels;
}
