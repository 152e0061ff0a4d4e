/** Parts of a preset as settings for `vf-train --set`, to lay them over another one. */
import { tomlValue } from '../../src/reports/training/toml-value.ts';
import { isObject } from '../../src/schemas/is-object.ts';
import type { Preset } from '../../src/trainer/config/preset.ts';

/**
 * `key=value` for every key of the preset that is one of `keys`, or is inside one of them. Throws for a key that the preset does not set.
 * @example settingLines(preset, ['algorithm']) // ['algorithm.epochs=4', 'algorithm.loss.clip_low=0.2', ...]
 */
export function settingLines({ name, table }: Pick<Preset, 'name' | 'table'>, keys: readonly string[]): string[] {
  const all = leaves(table, '');
  return keys.flatMap((key) => {
    const inside = all.filter(([path]) => path === key || path.startsWith(`${key}.`));
    if (inside.length === 0) throw new Error(`The preset ${name} does not set ${key}.`);
    return inside.map(([path, value]) => `${path}=${tomlValue(value)}`);
  });
}

function leaves(value: unknown, path: string): [path: string, value: unknown][] {
  if (!isObject(value)) return [[path, value]];
  return Object.entries(value).flatMap(([name, inner]) => leaves(inner, path === '' ? name : `${path}.${name}`));
}
