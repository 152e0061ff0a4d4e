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
    stream: {
      ...anyOf({ enum: ['auto'] } as const, { type: 'boolean' } as const),
      description:
        '`true` asks the server for streams, `false` never does. `"auto"`: once it refuses other requests, or a gateway cuts a silent connection. Servers only. Default: that of the alias, else "auto".',
    },
    sampling: {
      type: 'object',
      additionalProperties: true,
      description:
        'Fields of every request, such as { temperature = 0.6, top_p = 0.95 }. They replace those of the environment, whose default is greedy decoding. "unset" leaves a field out, so that the server uses its own value. Models of the environment itself take none. Default: none.',
    },
    reasoning_effort: text('The field of that name: `medium`. Default: not sent.'),
    max_tokens: limit(
      'Most new tokens of a reply, in place of the number that the environment asks for; the thoughts of a model may need thousands. Default: that number.',
    ),
    max_concurrent: limit('Most concurrent calls. Default: 32.'),
    timeout_s: { type: 'number', exclusiveMinimum: 0, description: 'Deadline of one request. Default: 600.' },
    total_timeout_s: {
      type: 'number',
      exclusiveMinimum: 0,
      description: 'Deadline of a call with all its retries, from its slot on. Default: none.',
    },
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
