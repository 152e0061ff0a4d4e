/** Lists of rows about which a person or a model decided: `{id, exclude, reason}`, one per line. A missing `exclude` counts as true. */
import { ConfigError } from '../core/errors.ts';
import { readRows, shown } from './row-files.ts';

export interface Exclusions {
  /** Reasons by id of the rows that are left out. */
  readonly reasons: ReadonlyMap<string, string>;
  /** Number of rows in the lists, including those that stay. */
  readonly listed: number;
}

/** Throws ConfigError for a row that is in two lists, or that is left out without a reason. */
export async function readExclusions(paths: readonly string[]): Promise<Exclusions> {
  const reasons = new Map<string, string>();
  const places = new Map<string, string>();
  for (const path of paths) {
    for (const { id, fields, place } of await readRows(path)) {
      const known = places.get(id);
      if (known !== undefined)
        throw new ConfigError(`${place} decides about ${JSON.stringify(id)}, as ${known} does; remove it from one of the lists`);
      places.set(id, place);
      const { exclude = true, reason } = fields;
      if (typeof exclude !== 'boolean') throw new ConfigError(`${place}: "exclude" must be true or false, got ${shown(exclude)}`);
      if (!exclude) continue;
      if (typeof reason !== 'string' || reason.trim() === '')
        throw new ConfigError(`${place}: "reason" must say why ${JSON.stringify(id)} is left out, got ${shown(reason)}`);
      reasons.set(id, reason);
    }
  }
  return { reasons, listed: places.size };
}
