/** Reads a TOML file that may take what it shares with another from there: `extends = "other.toml"`. */
import { dirname, isAbsolute, join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS } from '../schemas/nesting.ts';
import { readTomlSync, typeOf } from './toml-text.ts';

type Table = Readonly<Record<string, unknown>>;

/**
 * The tables of the file over those of the file that its `extends` names, and so on; the key itself is left out. Tables are merged key by key, lists of
 * `[[tables]]` that each have a `key` by that, and anything else is replaced.
 * Throws ConfigError for a file that cannot be read or is not TOML, for `extends` that is not a relative path of a .toml file, and for a file that extends itself.
 */
export function readExtendedToml(path: string): Record<string, unknown> {
  return read(path, []);
}

function read(path: string, from: readonly string[]): Record<string, unknown> {
  const { extends: other, ...own } = readTomlSync(path);
  if (isDeeperThan(own, MOST_LEVELS)) throw new ConfigError(`${path} is nested more than ${MOST_LEVELS} levels deep; use flatter tables`);
  if (other === undefined) return own;
  if (typeof other !== 'string' || isAbsolute(other) || !other.endsWith('.toml')) {
    const got = typeof other === 'string' ? JSON.stringify(other) : typeOf(other);
    throw new ConfigError(`extends in ${path} must be the path of a .toml file, relative to the file's own folder, got ${got}`);
  }
  const named = join(dirname(path), other);
  const chain = [...from, path];
  if (chain.some((file) => join(file) === named))
    throw new ConfigError(`extends in ${path} leads back to ${named}, which would never end; name another file, or leave it out`);
  return merged(read(named, chain), own);
}

function merged(base: Table, own: Table): Record<string, unknown> {
  const both = Object.entries(own).map(([key, value]) => [key, Object.hasOwn(base, key) ? mergedValue(base[key], value) : value] as const);
  return { ...base, ...Object.fromEntries(both) };
}

function mergedValue(base: unknown, own: unknown): unknown {
  if (isKeyed(base) && isKeyed(own)) {
    const ofOwn = new Map(own.map((table) => [table.key, table]));
    const isNew = ({ key }: Keyed) => !base.some((table) => table.key === key);
    return [...base.map((table) => ofOwn.get(table.key) ?? table), ...own.filter(isNew)];
  }
  return isTable(base) && isTable(own) ? merged(base, own) : own;
}

type Keyed = Table & { readonly key: string };

function isKeyed(value: unknown): value is readonly Keyed[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => isObject(each) && typeof each['key'] === 'string');
}

/** A date of TOML is an object too. */
function isTable(value: unknown): value is Table {
  return isObject(value) && !(value instanceof Date);
}
