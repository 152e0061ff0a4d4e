/** What an environment's package.json may say under `"verifiers"`. */
import { schemaCheck } from './schema-check.ts';

export interface EnvironmentDefaults {
  /** Rows that an evaluation plays when the user names no number; -1 is all. */
  readonly numExamples?: number;
  /** Rollouts per row when the user names no number. */
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

/** Reads `"verifiers"` of a parsed package.json; a package without it describes nothing, which is fine. */
export function parseEnvironmentDescription(manifest: unknown): ParsedDescription {
  const description = typeof manifest === 'object' && manifest !== null ? (manifest as Record<string, unknown>)['verifiers'] : undefined;
  if (description === undefined) return { ok: true, description: {} };
  const isDescription = schemaCheck<EnvironmentDescription>(descriptionSchema);
  if (isDescription(description)) return { ok: true, description };
  const [error] = isDescription.errors!;
  const field = `verifiers${error!.instancePath.replaceAll('/', '.')}`;
  const known = 'known are id, entry, eval.numExamples and eval.rolloutsPerExample';
  const extra = (error!.params as { additionalProperty?: string }).additionalProperty;
  return { ok: false, problem: extra === undefined ? `${field} ${error!.message}; ${known}` : `unknown key ${field}.${extra}; ${known}` };
}
