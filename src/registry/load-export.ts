/** Loads the other exports of a user's module or an environment, next to its environment: the source of a trainer, a loss. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { ConfigError, thrownText } from '../core/errors.ts';
import { findEnvironment, type FindEnvironmentOptions } from './find-environment.ts';
import { importEnvironment } from './import-environment.ts';

type AnyFunction = (...args: never[]) => unknown;

/** The export of an environment's module under this name; undefined if there is none. Throws ConfigError if the environment cannot be imported. */
export async function environmentExport(id: string, name: string, options: FindEnvironmentOptions = {}): Promise<unknown> {
  const { entry, isBundled } = findEnvironment(id, options);
  return exportedBy(await imported(entry, isBundled), name);
}

/** As `environmentExport`, for a function; null if it exports none. */
export async function environmentFunction(id: string, name: string, options: FindEnvironmentOptions = {}): Promise<AnyFunction | null> {
  const exported = await environmentExport(id, name, options);
  if (exported === undefined) return null;
  if (typeof exported === 'function') return exported as AnyFunction;
  throw new ConfigError(`${findEnvironment(id, options).entry} exports ${name}, but it is not a function`);
}

/** The function that a module exports under this name. `key` is the setting that names the module. Throws ConfigError. */
export async function moduleFunction(path: string, name: string, key: string): Promise<AnyFunction> {
  const exported = await optionalModuleFunction(path, name, key);
  if (exported !== null) return exported;
  throw new ConfigError(`${path} (${key}) does not export a function ${name}`);
}

/** What a module exports under this name, of any type. Throws ConfigError if there is no such module or export. */
export async function moduleExport(path: string, name: string, key: string): Promise<unknown> {
  const exported = await optionalModuleExport(path, name, key);
  if (exported !== undefined) return exported;
  throw new ConfigError(`${path} (${key}) exports no ${name}`);
}

/** As `moduleFunction`; null if the module does not export the name. */
export async function optionalModuleFunction(path: string, name: string, key: string): Promise<AnyFunction | null> {
  const exported = await optionalModuleExport(path, name, key);
  if (exported === undefined) return null;
  if (typeof exported === 'function') return exported as AnyFunction;
  throw new ConfigError(`${path} (${key}) exports ${name}, but it is not a function`);
}

async function optionalModuleExport(path: string, name: string, key: string): Promise<unknown> {
  if (!existsSync(resolve(path))) throw new ConfigError(`There is no module ${path} (${key}); name a file, with its extension`);
  return exportedBy(await imported(resolve(path), false, key), name);
}

async function imported(path: string, isOwn: boolean, key?: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await importEnvironment(path, { isOwn });
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : thrownText(cause);
    throw new ConfigError(`${path}${key === undefined ? '' : ` (${key})`} could not be imported: ${text}`, { cause });
  }
}

/** For a CommonJS module, the members of its default export. */
function exportedBy(module: Readonly<Record<string, unknown>>, name: string): unknown {
  const nested = module['default'];
  return module[name] ?? (typeof nested === 'object' && nested !== null ? (nested as Record<string, unknown>)[name] : undefined);
}
