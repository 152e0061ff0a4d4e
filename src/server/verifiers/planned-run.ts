/** The parts of a `run` request: a row, a policy and sampling parameters. */
import type { Sampling } from '../../clients/policy-client.ts';
import type { Row } from '../../core/dataset.ts';
import { ConfigError } from '../../core/errors.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { RunRequest } from '../../schemas/verifiers-wire/requests.ts';
import type { ServedEnvironment } from '../environment/served-environment.ts';
import type { PolicyAddress, ServedPolicies } from '../environment/served-policies.ts';

export interface PlannedRun {
  readonly row: Row;
  /** Unchanged, because it goes back on the trace. */
  readonly taskData: Readonly<Record<string, unknown>>;
  readonly address: PolicyAddress & { readonly model: string };
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
}

export interface PlanOptions {
  readonly served: Pick<ServedEnvironment, 'row' | 'rows' | 'split'>;
  readonly policies: Pick<ServedPolicies, 'assertAllowed' | 'assertVariableAllowed' | 'readSampling'>;
  /** Variables of this process, for headers that come from them. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/** Fields that trainers send to their own clients. Our client sends them with every request if the server knows them, so the server ignores them. */
const OURS = new Set([
  'add_special_tokens',
  'detokenize',
  'echo',
  'include_stop_str_in_output',
  'logprobs',
  'return_token_ids',
  'return_tokens_as_token_ids',
  'skip_special_tokens',
  'stream',
  'stream_options',
  'top_logprobs',
]);

/** Throws ConfigError for an unknown row, a policy that may not be named, or sampling that is not possible. */
export function plannedRun({ task_data: taskData, client, model, sampling: fields = {} }: RunRequest, options: PlanOptions): PlannedRun {
  const { policies } = options;
  const row = rowOf(taskData, options.served);
  const { cacheSalt, ...sampling } = samplingOf(fields, policies);
  const address = {
    baseUrl: client.base_url,
    model,
    // The client names a variable even if the server needs no key.
    keyVariable: client.api_key_var || null,
    isKeyNeeded: false,
    headers: headersOf(client, options),
    kind: client.type === 'train' ? 'tokens' : 'auto',
    version: 0,
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
  } as const;
  policies.assertAllowed(address);
  return { row, taskData, address, ...sampling };
}

/** By its id, else by its place in the split. */
function rowOf({ example_id: exampleId = null, idx = null }: RunRequest['task_data'], served: PlanOptions['served']): Row {
  const { rows, split } = served;
  if (exampleId !== null) {
    const row = served.row(exampleId);
    if (row !== null) return row;
    throw new ConfigError(
      `The row ${JSON.stringify(exampleId)} (task_data.example_id) is not among the ${rows.length} rows of ${rows.name} (split ${split}). The method tasks lists them.`,
    );
  }
  if (idx === null) throw new ConfigError('task_data names no row. Send its example_id, or its place in the split as idx.');
  if (idx < rows.length) return rows.at(idx);
  throw new ConfigError(`task_data.idx is ${idx}, but ${rows.name} (split ${split}) has ${rows.length} rows, counted from 0.`);
}

/** A variable without a value adds no header, as in verifiers. */
function headersOf(
  { base_url, headers, headers_from_env: fromVariables }: RunRequest['client'],
  { policies, variables }: PlanOptions,
): Record<string, string> {
  const found = { ...headers };
  for (const [name, variable] of Object.entries(fromVariables ?? {})) {
    policies.assertVariableAllowed(variable, 'headers_from_env', base_url);
    const value = variables[variable];
    if (value !== undefined && value !== '') found[name] = value;
  }
  return found;
}

interface ReadFields extends Pick<PlannedRun, 'sampling' | 'maxTokens'> {
  readonly cacheSalt?: string;
}

function samplingOf({ extra_body: body, ...direct }: Readonly<Record<string, unknown>>, policies: PlanOptions['policies']): ReadFields {
  const given = Object.entries({ ...fieldsOf(body), ...direct });
  // Pydantic writes unset fields as null. Several choices are several runs here.
  const asked = given.filter(([name, value]) => value !== null && !OURS.has(name) && !(name === 'n' && value === 1));
  const { cache_salt: salt, ...others } = Object.fromEntries(asked);
  const { sampling, maxTokens } = policies.readSampling(others);
  return { sampling, maxTokens, ...(salt === undefined ? {} : { cacheSalt: textOf(salt) }) };
}

function textOf(salt: unknown): string {
  if (typeof salt === 'string' || typeof salt === 'number') return String(salt);
  throw new ConfigError('sampling.cache_salt must be a string. Leave it out, or send one that changes with the weights.');
}
