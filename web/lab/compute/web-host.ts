/** A page as a host of the engine: files and kernels from the page's own server, Web Workers as threads. */
import type { EngineHost } from '../../../src/engine/engine-host.ts';
import type { KernelsBuild, LoadedKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { FetchedFolder } from './fetched-folder.ts';
import { sameThread } from './same-thread.ts';
import { workerThreads } from './web-threads.ts';

/** Memory can be shared only on a page that its server isolates from other sites (COOP and COEP). */
const canShare = globalThis.crossOriginIsolated && typeof SharedArrayBuffer !== 'undefined';

/** @param base of the static directory that `npm run build:lab` writes */
export function webHost(base: URL): EngineHost {
  return {
    folder: (path) => new FetchedFolder(path, new URL(`${path}/`, base)),
    loadKernels: () => loadKernels(new FetchedFolder('kernels', new URL('kernels/', base))),
    startThread: canShare ? workerThreads(new URL('thread.js', base)) : sameThread,
    cores: canShare ? navigator.hardwareConcurrency : 1,
  };
}

async function loadKernels(folder: FetchedFolder): Promise<LoadedKernels> {
  const read = async (build: KernelsBuild) => {
    const file = await folder.open(`${build}.wasm`);
    const bytes = new Uint8Array((await file.stat()).size);
    await file.read(bytes, 0, bytes.length, 0);
    return bytes;
  };
  const relaxed = await read('relaxed');
  if (WebAssembly.validate(relaxed)) return { module: await WebAssembly.compile(relaxed), build: 'relaxed' };
  return { module: await WebAssembly.compile(await read('plain')), build: 'plain' };
}
