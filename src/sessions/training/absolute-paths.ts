/** Makes the paths in a layer of a run's configuration absolute. */
import { resolve } from 'node:path';
import { modelPath } from '../../data/bundled-models.ts';
import { looksLikePath } from '../../data/find-rows.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { ConfigLayer } from '../../trainer/config/resolve-config.ts';
import { isModulePath } from '../../core/module-path.ts';

/** Paths of data and modules are recorded as absolute ones, so that a run can be continued from another folder. */
export function withPaths(layer: ConfigLayer): ConfigLayer {
  const { table } = withModelPath(layer);
  const within = (name: string, keys: readonly string[]) => {
    const inner = table[name];
    return isObject(inner) ? { [name]: { ...inner, ...absolutePaths(inner, keys) } } : {};
  };
  const tables = {
    ...within('sft', ['data', 'validation', ...problemsPath(table)]),
    ...within('model', ['initial_adapter']),
    ...absoluteModules(table),
  };
  return { ...layer, table: { ...table, ...absolutePaths(table, ['rollouts_file', 'source']), ...tables } };
}

/** Problems are a file's path, or the name of a bundled data set or one of the hub. */
function problemsPath({ sft }: Readonly<Record<string, unknown>>): readonly 'problems'[] {
  const problems = isObject(sft) ? sft['problems'] : undefined;
  return typeof problems === 'string' && looksLikePath(problems) ? ['problems'] : [];
}

/** A loss, or a credit, is a module's path or the id of a built-in one. */
function absoluteModules({ algorithm, losses }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const absolute = (part: unknown): unknown =>
    isObject(part) && typeof part['use'] === 'string' && isModulePath(part['use']) ? { ...part, use: resolve(part['use']) } : part;
  return {
    ...(isObject(algorithm)
      ? {
          algorithm: mapped(algorithm, (part, key) =>
            key === 'teacher' ? teacherPaths(part) : key === 'loss' || key === 'advantage' ? absolute(part) : part,
          ),
        }
      : {}),
    ...(isObject(losses) ? { losses: mapped(losses, absolute) } : {}),
  };
}

function teacherPaths(table: unknown): unknown {
  if (!isObject(table)) return table;
  const { path } = table;
  return { ...table, ...(typeof path === 'string' ? { path: modelPath(path) } : {}), ...absolutePaths(table, ['adapter']) };
}

function mapped(table: Readonly<Record<string, unknown>>, change: (value: unknown, key: string) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [key, change(value, key)]));
}

function absolutePaths(table: Readonly<Record<string, unknown>>, keys: readonly string[]): Record<string, unknown> {
  const absolute = (path: unknown): unknown => (typeof path === 'string' && path !== '-' && path !== '' ? resolve(path) : path);
  const given = keys.filter((key) => table[key] !== undefined);
  return Object.fromEntries(given.map((key) => [key, Array.isArray(table[key]) ? table[key].map(absolute) : absolute(table[key])]));
}

/** Replaces a bundled model's name with its directory, so that no code that loads it needs to know names. */
function withModelPath(layer: ConfigLayer): ConfigLayer {
  const { model } = layer.table;
  const path = isObject(model) ? model['path'] : undefined;
  return typeof path === 'string' ? { ...layer, table: { ...layer.table, model: { ...(model as object), path: modelPath(path) } } } : layer;
}
