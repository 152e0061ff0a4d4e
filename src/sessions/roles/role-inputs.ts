/** Digests of the models that aliases stand for: configs/endpoints.toml may give an alias another model, or ask it otherwise, by the time a run is resumed. */
import { createHash } from 'node:crypto';
import type { RoleTables } from '../../schemas/roles-config.ts';
import { readEndpoints } from '../policy/endpoints.ts';
import type { NamedInputs } from '../named-inputs.ts';

/** Of the roles that an alias plays. An alias that is not there is reported when the roles are opened. */
export async function roleInputs(roles: RoleTables = {}, endpointsPath: string | null = null): Promise<NamedInputs> {
  const named = Object.entries(roles).flatMap(([role, { use }]) =>
    use === undefined || use === 'builtin' || use === 'policy' ? [] : [[role, use] as const],
  );
  if (named.length === 0) return {};
  const { path, endpoints } = await readEndpoints(endpointsPath);
  return Object.fromEntries(
    named.flatMap(([role, alias]) => {
      const found = endpoints.find(({ id }) => id === alias);
      if (found === undefined) return [];
      const { model, request } = found;
      return [[`roles.${role}.use`, { [`${alias} in ${path}`]: createHash('sha256').update(JSON.stringify({ model, request })).digest('hex') }]];
    }),
  );
}
