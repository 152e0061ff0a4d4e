/** Chooses an executor by its name. */
import { isAbsolute } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { CachedExecutor } from './cached-executor.ts';
import type { CodeExecutor, ExecutorName } from './code-executor.ts';
import { ProcessExecutor } from './process/process-executor.ts';
import { WasiExecutor } from './wasi/wasi-executor.ts';

export interface ExecutorOptions {
  /** Programs that run at the same time; further ones wait. @default 2 */
  readonly workers?: number;
  /** Memory for results that are kept and not computed again, in bytes; 0 keeps none. @default 32 MiB */
  readonly cacheBytes?: number;
  /** The Python of `bubblewrap` and `none`, as an absolute path, with the packages that programs may import. @default /usr/bin/python3 */
  readonly python?: string;
}

/**
 * Opens a sandbox for programs. Close it when no more programs come. Throws ExecutionError, with what to install, if it cannot be started on this machine.
 * @example
 * const executor = await openExecutor('wasi', { workers: 2 });
 */
export async function openExecutor(name: ExecutorName, options: ExecutorOptions = {}): Promise<CodeExecutor> {
  const { workers = 2, cacheBytes = 32 * 2 ** 20 } = options;
  if (!Number.isInteger(workers) || workers < 1) throw new ConfigError(`The number of workers must be an integer of at least 1, got ${workers}`);
  if (!Number.isInteger(cacheBytes) || cacheBytes < 0)
    throw new ConfigError(`The memory for results must be a whole number of bytes, 0 or more, got ${cacheBytes}`);
  if (name === 'wasi' && options.python !== undefined)
    throw new ConfigError('The executor wasi has a Python of its own. Leave python out, or choose bubblewrap');
  if (options.python !== undefined && !isAbsolute(options.python))
    throw new ConfigError(`The Python of an executor must be an absolute path such as /usr/bin/python3, got ${JSON.stringify(options.python)}`);
  const executor = await open(name, { ...options, workers });
  return cacheBytes === 0 ? executor : new CachedExecutor(executor, cacheBytes);
}

function open(name: ExecutorName, { workers, python }: ExecutorOptions & { readonly workers: number }): Promise<CodeExecutor> {
  if (name === 'wasi') return WasiExecutor.open({ workers });
  if (name === 'bubblewrap' || name === 'none') return ProcessExecutor.open({ name, workers, ...(python === undefined ? {} : { python }) });
  throw new ConfigError(`The executor ${JSON.stringify(name)} is unknown. Choose wasi, bubblewrap or none`);
}
