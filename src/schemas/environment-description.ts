/** The `"verifiers"` key of an environment's package.json. */
import type { XStatic } from 'typebox/schema';
import { isObject } from './is-object.ts';
import { anyOf, atLeastOne, closed, filledText, integer, only } from './json-schema.ts';
import { schemaCheck } from './schema-check.ts';

const defaultsSchema = closed(
  {},
  {
    /** Default number of rows in an evaluation; -1 is all. */
    numExamples: { ...integer, ...anyOf(only(-1), { minimum: 1 }) },
    /** Default number of rollouts per row. */
    rolloutsPerExample: atLeastOne,
  },
);
export type EnvironmentDefaults = XStatic<typeof defaultsSchema>;

const descriptionSchema = closed(
  {},
  {
    id: filledText,
    /** The module to import, relative to the folder. @default environment.ts, .mts, .js or .mjs */
    entry: filledText,
    eval: defaultsSchema,
  },
);
export type EnvironmentDescription = XStatic<typeof descriptionSchema>;

export type ParsedDescription =
  | { readonly ok: true; readonly description: EnvironmentDescription }
  | { readonly ok: false; readonly problem: string };

/** Reads `"verifiers"` of a parsed package.json. A package without it is valid and gives an empty description. */
export function parseEnvironmentDescription(manifest: unknown): ParsedDescription {
  const description = isObject(manifest) ? manifest['verifiers'] : undefined;
  if (description === undefined) return { ok: true, description: {} };
  const isDescription = schemaCheck(descriptionSchema);
  if (isDescription(description)) return { ok: true, description };
  const [error] = isDescription.errors!;
  const field = `verifiers${error!.instancePath.replaceAll('/', '.')}`;
  const known = 'known keys: id, entry, eval.numExamples, eval.rolloutsPerExample';
  const extra = (error!.params as { additionalProperty?: string }).additionalProperty;
  return { ok: false, problem: extra === undefined ? `${field} ${error!.message}; ${known}` : `unknown key ${field}.${extra}; ${known}` };
}
