/** The credit that an environment brings, as a setting: so a run records it, and its viewers and later resumes know it. */
import { environmentIfFound } from '../../registry/find-environment.ts';
import { environmentExport } from '../../registry/load-export.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { ConfigLayer } from '../../trainer/config/resolve-config.ts';
import { ENVIRONMENT_CREDIT } from '../../trainer/config/own-credit.ts';

/** The lowest layer of a new run whose environment exports `createCredit`; none for other environments. */
export async function environmentCredit(layers: readonly ConfigLayer[]): Promise<ConfigLayer[]> {
  const id = layers.map(({ table }) => fieldsOf(table['environment'])['id']).findLast((value) => value !== undefined);
  if (typeof id !== 'string') return [];
  const found = environmentIfFound(id);
  if (found === null || found.isBundled) return [];
  // An environment that cannot be imported is reported by the code that loads it.
  const exported = await environmentExport(id, 'createCredit').catch(() => undefined);
  return exported === undefined ? [] : [{ source: `createCredit of ${id}`, table: { algorithm: { advantage: { use: ENVIRONMENT_CREDIT } } } }];
}
