/** Loads the kernels from the package's files. The main thread compiles the module once, in milliseconds, and sends it to the other threads. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { VfError } from '../../core/errors.ts';
import type { KernelsBuild, LoadedKernels } from './compile-kernels.ts';
import { webAssembly } from './web-assembly.ts';

/** @param forced the build to load; by default `relaxed` if this Node supports it. */
export function loadKernelsModule(forced?: KernelsBuild): LoadedKernels {
  const build = forced ?? (webAssembly.validate(readBuild('relaxed')) ? 'relaxed' : 'plain');
  return { module: new webAssembly.Module(readBuild(build)), build };
}

function readBuild(build: KernelsBuild): Uint8Array {
  const path = join(import.meta.dirname, 'wasm', `${build}.wasm`);
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new VfError(`The compiled kernels are missing (${path}). Run npm run build.`, { cause });
  }
}
