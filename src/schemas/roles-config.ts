/**
 * Who plays a role, and within which limits: the table `[roles.<role>]` of vf-eval and vf-train, and what `--role` says. Every key may be left
 * out; a table without `use` and `base_url` keeps the role's default and sets its limits.
 */
import type { XStatic } from 'typebox/schema';
import { text } from './config-table.ts';
import { anyOf, atLeastOne, byName, count, filledListOf, filledText } from './json-schema.ts';

const limit = (description: string) => ({ ...atLeastOne, description }) as const;

/** No key is required: what is left out is the default. */
export const roleTableSchema = {
  type: 'object',
  additionalProperties: false,
  description:
    'Who plays a role of the environment, and within which limits. `--role NAME=MODEL` sets `use`, or `base_url` and `model`. Default: what the environment says.',
  properties: {
    use: text(
      '`builtin`: what the environment brings. `policy`: the server of the run itself, beside the rollouts. Anything else: an alias of configs/endpoints.toml. In place of base_url.',
    ),
    base_url: {
      ...anyOf(filledText, filledListOf(filledText)),
      description: 'An OpenAI-compatible server, up to and with /v1, or one URL for each replica.',
    },
    model: text('The model at base_url. Default: the only one that it serves.'),
    api_key_var: text(
      'Environment variable that holds the API key. Default: that of the alias, or of a provider of vf-eval -p at its own URL; else no key is sent.',
    ),
    max_concurrent: limit('Calls under way at once. Default: 32.'),
    timeout_s: { type: 'number', exclusiveMinimum: 0, description: 'Deadline of one request. Default: 600.' },
    max_retries: { ...count, description: 'Further requests after a failure that may pass. Default: 3.' },
    budget_calls: limit('Calls in all, of this process; what the cache answers costs none. Default: no limit.'),
    budget_tokens: limit('Tokens in all, of prompts and replies; calls under way may spend some more. Default: no limit.'),
    cache: text(
      'Replies to requests at temperature 0: `memory` keeps them for this run, a path in that file for all runs that name it, `off` not at all. Servers only. Default: memory.',
    ),
  },
} as const;

export const rolesSchema = {
  ...byName(roleTableSchema),
  default: {},
  description: 'Models beside the policy, by role: [roles.judge] and so on, with the keys below.',
} as const;

export type RoleTable = XStatic<typeof roleTableSchema>;
export type RoleTables = Readonly<Record<string, RoleTable>>;

/** What says who plays the role, and makes sense for that one alone. */
const WHO: readonly (keyof RoleTable)[] = ['use', 'base_url', 'model', 'api_key_var'];

/** What is left of a table once another one names somebody else: the limits. A cache is no use to a model in this process. */
export function limitsBeside(before: Readonly<Record<string, unknown>>, next: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (next['use'] === undefined && next['base_url'] === undefined) return { ...before };
  const dropped: readonly string[] = next['use'] === 'builtin' || next['use'] === 'policy' ? [...WHO, 'cache'] : WHO;
  return Object.fromEntries(Object.entries(before).filter(([key]) => !dropped.includes(key)));
}

/** `over` wins, key by key; who plays a role is one decision. */
export function mergeRoleTables(base: RoleTables, over: RoleTables): RoleTables {
  const merged: Record<string, RoleTable> = { ...base };
  for (const [role, table] of Object.entries(over)) merged[role] = { ...limitsBeside(merged[role] ?? {}, table), ...table };
  return merged;
}
