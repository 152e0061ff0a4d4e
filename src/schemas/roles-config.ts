/**
 * The model for a role and its limits: the table `[roles.<role>]` of vf-eval and vf-train, and `--role`. Every key is optional; a table without `use` and `base_url` keeps the role's default and sets its limits.
 */
import type { XStatic } from 'typebox/schema';
import { text } from './config-table.ts';
import { anyOf, atLeastOne, byName, count, filledListOf, filledText } from './json-schema.ts';

const limit = (description: string) => ({ ...atLeastOne, description }) as const;

/** No key is required: a missing key has its default. */
export const roleTableSchema = {
  type: 'object',
  additionalProperties: false,
  description:
    'The model for a role of the environment, and its limits. `--role NAME=MODEL` sets `use`, or `base_url` and `model`. Default: the default that the environment declares.',
  properties: {
    use: text(
      '`builtin`: the model that is part of the environment. `policy`: the policy server of this run, which also serves the rollouts. Any other value: an alias of configs/endpoints.toml. Replaces base_url.',
    ),
    base_url: {
      ...anyOf(filledText, filledListOf(filledText)),
      description: 'An OpenAI-compatible server, up to and with /v1, or one URL for each replica.',
    },
    model: text('The model at base_url. Default: the only one that it serves.'),
    api_key_var: text(
      'Environment variable that holds the API key. Default: that of the alias, or of a provider of vf-eval -p at its own URL; else no key is sent.',
    ),
    max_concurrent: limit('Most concurrent calls. Default: 32.'),
    timeout_s: { type: 'number', exclusiveMinimum: 0, description: 'Deadline of one request. Default: 600.' },
    max_retries: { ...count, description: 'Retries after a transient failure. Default: 3.' },
    budget_calls: limit('Most calls by this process; cached replies do not count. Default: no limit.'),
    budget_tokens: limit('Most tokens of prompts and replies by this process; pending calls may exceed it a little. Default: no limit.'),
    cache: text(
      'Replies to requests at temperature 0: `memory` keeps them for this run, a path keeps them in that file for all runs that name it, `off` keeps none. Servers only. Default: memory.',
    ),
  },
} as const;

export const rolesSchema = {
  ...byName(roleTableSchema),
  default: {},
  description: 'Models other than the policy, by role: [roles.judge] and so on, with the keys below.',
} as const;

export type RoleTable = XStatic<typeof roleTableSchema>;
export type RoleTables = Readonly<Record<string, RoleTable>>;
