/** Loads the kernels. The main thread compiles the module once, in milliseconds, and sends it to the other threads. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { VfError } from '../../core/errors.ts';
import type { Kernels } from './kernels.ts';
import type { EngineMemory, KernelsModule } from './web-assembly.ts';

/** `relaxed` uses the fused multiply-add and is about twice as fast; `plain` runs wherever SIMD does. Their results differ in the last bits. */
export type KernelsBuild = 'relaxed' | 'plain';

export interface LoadedKernels {
  readonly module: KernelsModule;
  readonly build: KernelsBuild;
}

/** @param forced the build to load; by default `relaxed` if this Node supports it. */
export function loadKernelsModule(forced?: KernelsBuild): LoadedKernels {
  const build = forced ?? (WebAssembly.validate(readBuild('relaxed')) ? 'relaxed' : 'plain');
  return { module: new WebAssembly.Module(readBuild(build)), build };
}

/** The kernels over `memory`, for the calling thread. Many threads may instantiate a module over one memory, because it keeps no state there. */
export function instantiateKernels(module: KernelsModule, memory: EngineMemory): Kernels {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return exports as unknown as Kernels;
}

function readBuild(build: KernelsBuild): Uint8Array {
  const path = join(import.meta.dirname, 'wasm', `${build}.wasm`);
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new VfError(`The compiled kernels are missing (${path}). Run npm run build.`, { cause });
  }
}
