/** The `"verifiers"` key of an environment's package.json. */
import { schemaCheck } from './schema-check.ts';

export interface EnvironmentDefaults {
  /** Default number of rows in an evaluation; -1 is all. */
  readonly numExamples?: number;
  /** Default number of rollouts per row. */
  readonly rolloutsPerExample?: number;
}

export interface EnvironmentDescription {
  readonly id?: string;
  /** The module to import, relative to the folder. @default environment.ts, .mts, .js or .mjs */
  readonly entry?: string;
  readonly eval?: EnvironmentDefaults;
}

export type ParsedDescription =
  | { readonly ok: true; readonly description: EnvironmentDescription }
  | { readonly ok: false; readonly problem: string };

const descriptionSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    id: { type: 'string', minLength: 1 },
    entry: { type: 'string', minLength: 1 },
    eval: {
      type: 'object',
      additionalProperties: false,
      properties: {
        numExamples: { type: 'integer', anyOf: [{ const: -1 }, { minimum: 1 }] },
        rolloutsPerExample: { type: 'integer', minimum: 1 },
      },
    },
  },
};

/** Reads `"verifiers"` of a parsed package.json. A package without it is valid and gives an empty description. */
export function parseEnvironmentDescription(manifest: unknown): ParsedDescription {
  const description = typeof manifest === 'object' && manifest !== null ? (manifest as Record<string, unknown>)['verifiers'] : undefined;
  if (description === undefined) return { ok: true, description: {} };
  const isDescription = schemaCheck<EnvironmentDescription>(descriptionSchema);
  if (isDescription(description)) return { ok: true, description };
  const [error] = isDescription.errors!;
  const field = `verifiers${error!.instancePath.replaceAll('/', '.')}`;
  const known = 'known keys: id, entry, eval.numExamples, eval.rolloutsPerExample';
  const extra = (error!.params as { additionalProperty?: string }).additionalProperty;
  return { ok: false, problem: extra === undefined ? `${field} ${error!.message}; ${known}` : `unknown key ${field}.${extra}; ${known}` };
}
