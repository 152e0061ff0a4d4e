/** Turns the caller's sampling settings into the parameters of every request. */
import { isDeepStrictEqual } from 'node:util';
import type { PolicyCapabilities, Sampling } from '../../clients/policy-client.ts';
import { closestName } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { samplingRange, wholeSampling } from '../../core/sampling.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { EvaluationRequest } from '../evaluation/evaluation-request.ts';
import type { Setting, SettingNames } from '../setting-names.ts';

/** Request fields that other settings set. */
const ELSEWHERE: Readonly<Record<string, readonly [Setting, after: string]>> = {
  seed: ['seed', '; servers get no seed, so that the rollouts of a row differ'],
  n: ['rolloutsPerRow', ' for several rollouts per row'],
  best_of: ['rolloutsPerRow', ' for several rollouts per row'],
  model: ['model', ''],
  stream: ['stream', ''],
};
/** Request fields that the user cannot set, with the reason. */
const RESERVED: Readonly<Record<string, string>> = {
  messages: 'the environment writes the prompt',
  prompt: 'the environment writes the prompt',
  stop: 'the environment decides where a generation ends',
  stream_options: 'the client asks for what it reads of a stream',
  logprobs: 'log-probs are requested whenever the server supports them',
  top_logprobs: 'log-probs are requested whenever the server supports them',
  echo: 'the prompt is already known',
  return_token_ids: 'token ids are requested whenever the server supports them',
  prompt_embeds: 'the environment writes the prompt',
  truncate_prompt_tokens: 'the policy must see the recorded prompt; the environment limits its length',
  stop_token_ids: 'the environment decides where a generation ends',
  prompt_logprobs: 'log-probs are requested whenever the server supports them',
  return_tokens_as_token_ids: 'token ids are requested whenever the server supports them',
  skip_special_tokens: 'text and token ids must agree',
  detokenize: 'text and token ids must agree',
  cache_salt: 'it identifies the policy version',
  add_special_tokens: 'the prompt is rendered once, by the chat template',
  include_stop_str_in_output: 'the environment needs the stop string in the text',
  add_generation_prompt: 'the environment writes the prompt',
  continue_final_message: 'the environment writes the prompt',
  tools: 'the environment offers its own tools',
};

/** Reserved names that null may stand under: then a chat API does not get the field. */
const MAY_BE_LEFT_OUT: ReadonlySet<string> = new Set(['stop', 'seed']);

const OF_OPENAI = ['temperature', 'top_p', 'max_tokens', 'max_completion_tokens', 'logit_bias', 'presence_penalty', 'frequency_penalty', 'user'];
const OF_VLLM = [
  'extra_body',
  'top_k',
  'min_p',
  'min_tokens',
  'ignore_eos',
  'repetition_penalty',
  'length_penalty',
  'bad_words',
  'chat_template_kwargs',
  'documents',
  'enable_thinking',
];
/** Variables of a chat template that a prompt sets itself. */
const OF_PROMPT = ['messages', 'tools', 'add_generation_prompt', 'continue_final_message', 'chat_template', 'tokenize'];
const KNOWN: ReadonlySet<string> = new Set([...OF_OPENAI, ...OF_VLLM, ...Object.keys(ELSEWHERE), ...Object.keys(RESERVED), 'reasoning_effort']);

type Json = Readonly<Record<string, unknown>>;
type SamplingSettings = Pick<EvaluationRequest, 'sampling' | 'temperature' | 'topP' | 'maxTokens'>;

export interface ReadSampling {
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
}

/**
 * Throws ConfigError for a value out of range, and for a field that the user cannot set.
 * @param names the caller's names for its settings, for errors
 */
export function readSampling(settings: SamplingSettings, names: SettingNames): ReadSampling {
  const elsewhere = Object.entries(ELSEWHERE).map(([key, [setting, after]]) => [key, `use ${names.name(setting)}${after}`] as const);
  return readFields(settings, { source: names.name('sampling'), reserved: { ...Object.fromEntries(elsewhere), ...RESERVED } });
}

/** The fields of every request to the model of a role, or of an alias. `source`: the table that has them, for errors. Throws ConfigError as `readSampling` does. */
export function readOwnSampling({ sampling = {}, reasoning_effort: effort, max_tokens: maxTokens }: RequestTable, source: string): ReadSampling {
  if (effort !== undefined && 'reasoning_effort' in sampling)
    throw new ConfigError(`${source} has reasoning_effort, and its sampling has it too. Leave one out.`);
  const settings = { sampling: fieldsOfTable({ sampling, reasoning_effort: effort }), ...(maxTokens === undefined ? {} : { maxTokens }) };
  return readFields(settings, { source: `sampling of ${source}`, reserved: { ...RESERVED, ...RESERVED_OF_ROLES } });
}

/** The settings of an evaluation over the fields of the alias that it names. */
export function overTable<S extends SamplingSettings>(settings: S, { max_tokens: maxTokens, ...table }: RequestTable = {}): S {
  const fields = { ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }), ...fieldsOfTable(table) };
  const { temperature, topP: top_p, maxTokens: max_tokens } = settings;
  const set: Readonly<Record<string, unknown>> = { temperature, top_p, max_tokens, max_completion_tokens: max_tokens };
  const left = Object.entries(fields).filter(([name]) => set[name] === undefined);
  return left.length === 0 ? settings : { ...settings, sampling: { ...Object.fromEntries(left), ...settings.sampling } };
}

/** Null, which TOML lacks, leaves a field out. */
function fieldsOfTable({ sampling = {}, reasoning_effort: effort }: RequestTable): Record<string, unknown> {
  const fields = { ...sampling, ...(effort === undefined ? {} : { reasoning_effort: effort }) };
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value === UNSET ? null : value]));
}

/** The value in a file that leaves a field out of the request. */
const UNSET = 'unset';

/** The keys of a table that are read as sampling. */
export interface RequestTable {
  readonly sampling?: Readonly<Record<string, unknown>>;
  readonly reasoning_effort?: string | undefined;
  readonly max_tokens?: number;
}

const RESERVED_OF_ROLES: Readonly<Record<string, string>> = {
  n: 'one reply is read',
  best_of: 'one reply is read',
  model: 'the table names the model',
};

interface FieldRules {
  readonly source: string;
  /** Fields that cannot be set, with the reason or what to do. */
  readonly reserved: Readonly<Record<string, string>>;
}

function readFields(settings: SamplingSettings, { source, reserved }: FieldRules): ReadSampling {
  const wrong = (name: string, expected: string, value: unknown) => wrongValue(source, name, expected, value);
  const { extra_body: body, ...direct } = settings.sampling ?? {};
  // Python clients put fields that OpenAI does not define under extra_body; in the request they are top-level fields.
  if (body !== undefined && !isObject(body)) throw wrong('extra_body', 'an object', body);
  const twice = Object.keys(body ?? {}).find((name) => Object.hasOwn(direct, name) && !isDeepStrictEqual(body?.[name], direct[name]));
  if (twice !== undefined) throw new ConfigError(`${source} has ${JSON.stringify(twice)} twice, in extra_body with another value. Leave one out.`);
  const given: Record<string, unknown> = { ...body, ...direct };
  const isLeftOut = (name: string) => given[name] === null && MAY_BE_LEFT_OUT.has(name);
  for (const [key, reason] of Object.entries(reserved)) {
    if (Object.hasOwn(given, key) && !isLeftOut(key)) throw new ConfigError(`${source} cannot set "${key}": ${reason}`);
  }
  const leaveOut = Object.keys(given).filter((name) => given[name] === null);
  const {
    temperature = settings.temperature ?? null,
    top_p: topP = settings.topP ?? null,
    max_tokens: most,
    max_completion_tokens: alsoMost,
    ...extra
  } = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
  if (most !== undefined && alsoMost !== undefined)
    throw new ConfigError(`${source} has both max_tokens and max_completion_tokens, which are two names of one limit. Leave one out.`);
  const maxTokens = most ?? alsoMost ?? settings.maxTokens ?? null;
  const limit = { [alsoMost === undefined ? 'max_tokens' : 'max_completion_tokens']: maxTokens };
  for (const [name, value] of Object.entries({ temperature, top_p: topP, ...limit, ...extra })) {
    const expected = value === null ? null : samplingRange(name, value);
    if (expected !== null) throw wrong(name, expected, value);
  }
  checkTemplateFields(extra, source);
  for (const name of Object.keys(extra)) {
    // Any other name is left to the server, such as top_a.
    const meant = KNOWN.has(name) || name.length < 7 ? null : closestName(name, KNOWN, 1);
    if (meant !== null) throw new ConfigError(`${source} has no ${JSON.stringify(name)}; did you mean ${meant}?`);
  }
  // Sent under the name that the user chose, because a server may refuse the other one.
  const further = alsoMost === undefined ? extra : { ...extra, max_completion_tokens: alsoMost };
  const sampling = {
    temperature: leaveOut.includes('temperature') ? null : (temperature as number | null),
    topP: leaveOut.includes('top_p') ? null : (topP as number | null),
    ...(Object.keys(further).length === 0 ? {} : { extra: further }),
    ...(leaveOut.length === 0 ? {} : { leaveOut }),
  };
  return { sampling, maxTokens: maxTokens as number | null };
}

/** Throws ConfigError for fields that no chat template can take. */
function checkTemplateFields(
  { chat_template_kwargs: variables = null, documents = null, reasoning_effort: effort = null }: Json,
  source: string,
): void {
  if (variables !== null && !isObject(variables)) throw wrongValue(source, 'chat_template_kwargs', 'an object', variables);
  const own = OF_PROMPT.find((name) => variables !== null && Object.hasOwn(variables, name));
  if (own !== undefined) throw new ConfigError(`chat_template_kwargs in ${source} cannot set "${own}": the environment writes the prompt`);
  if (documents !== null && !(Array.isArray(documents) && documents.every(isObject)))
    throw wrongValue(source, 'documents', 'a list of objects', documents);
  if (effort !== null && typeof effort !== 'string') throw wrongValue(source, 'reasoning_effort', 'a text such as "low"', effort);
}

/**
 * The sampling of this policy. All but chat APIs get every field, and a route by token ids calls the limit `max_tokens`, which the rollout sets. Throws
 * ConfigError if a field is to be left out that the policy always gets.
 */
export function samplingFor(
  { sampling, maxTokens }: ReadSampling,
  { kind, leavesOut = false }: Pick<PolicyCapabilities, 'kind' | 'leavesOut'>,
  names: SettingNames,
): ReadSampling {
  if (leavesOut) return { sampling, maxTokens };
  const { leaveOut = [], ...rest } = sampling;
  if (leaveOut.length > 0)
    throw new ConfigError(
      `${names.name('sampling')} cannot leave out ${leaveOut.join(', ')}: only a chat API takes requests without, and another policy plays`,
    );
  const { extra, ...whole } = wholeSampling(rest);
  const { max_completion_tokens: limit, ...others } = extra ?? {};
  const further = kind === 'tokens' || limit === undefined ? others : { ...others, max_completion_tokens: limit };
  return { sampling: { ...whole, ...(Object.keys(further).length === 0 ? {} : { extra: further }) }, maxTokens };
}

function wrongValue(source: string, name: string, expected: string, value: unknown): ConfigError {
  const shown = typeof value === 'number' ? String(value) : JSON.stringify(hideSecrets(value, name));
  return new ConfigError(`${name} in ${source} must be ${expected}, got ${shown}`);
}
