/** Loads the compiled kernels. Compiling takes milliseconds: once on the main thread, which sends the module to the others. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { VfError } from '../../core/errors.ts';
import type { Kernels } from './kernels.ts';
import type { EngineMemory, KernelsModule } from './web-assembly.ts';

/** `relaxed` has the fused multiply-add and is about twice as fast; `plain` runs wherever SIMD does. They differ in the last bits. */
export type KernelsBuild = 'relaxed' | 'plain';

export interface LoadedKernels {
  readonly module: KernelsModule;
  readonly build: KernelsBuild;
}

/** @param forced which build to take; by default `relaxed` where this Node runs it. */
export function loadKernelsModule(forced?: KernelsBuild): LoadedKernels {
  const build = forced ?? (WebAssembly.validate(readBuild('relaxed')) ? 'relaxed' : 'plain');
  return { module: new WebAssembly.Module(readBuild(build)), build };
}

/** The kernels over `memory`, for the calling thread. A module may be instantiated over one memory in many threads: it keeps no state there. */
export function instantiateKernels(module: KernelsModule, memory: EngineMemory): Kernels {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return exports as unknown as Kernels;
}

function readBuild(build: KernelsBuild): Uint8Array {
  const path = join(import.meta.dirname, 'wasm', `${build}.wasm`);
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new VfError(`expected the compiled kernels at ${path}; npm run build makes them`, { cause });
  }
}
