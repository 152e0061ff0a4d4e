/** The parameters of the server `generation`: which model it asks and how, in the forms of UltraRAG 2.0 and 3.0. */
import type { StreamSetting } from '../../clients/policy-client.ts';
import { samplingRange } from '../../core/sampling.ts';
import type { KeySchema } from '../../schemas/config-keys.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { kindOrNumber } from '../../schemas/kind-of.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { Values } from '../pipeline-server.ts';
import type { ChatService } from '../service-openers.ts';
import { isAskable } from './ask-policy.ts';
import type { ToolsVersion } from './tools-version.ts';

/** vLLM's field: the answer contains the string that ended it. */
export const KEEPS_STOP = 'include_stop_str_in_output';
export const CONCURRENCY = 16;
const RETRIES = 3;

const SAMPLING = { temperature: 0.7, top_p: 0.8, max_tokens: 2048 };
const count = { type: 'integer', minimum: 0 } as const;
const OPENAI = { model_name: 'openbmb/MiniCPM4-8B', base_url: 'http://localhost:8000/v1', concurrency: CONCURRENCY, retries: RETRIES };

export const GENERATION_PARAMETERS: Readonly<Record<ToolsVersion, Readonly<Record<string, KeySchema>>>> = {
  '2.0': {
    backend: { type: 'string' },
    base_url: { type: 'string', minLength: 1, default: 'http://localhost:8000/v1' },
    model_name: { type: 'string', minLength: 1, default: 'openbmb/MiniCPM4-8B' },
    sampling_params: { type: 'object', default: SAMPLING },
    concurrency: { type: 'integer', minimum: 1 },
    retries: count,
    stream: { type: ['string', 'boolean'] },
  },
  '3.0': {
    backend: { type: 'string', default: 'openai' },
    backend_configs: { type: 'object', default: { openai: OPENAI } },
    sampling_params: { type: 'object', default: SAMPLING },
    extra_params: { type: ['object', 'null'], default: {} },
    system_prompt: { type: ['string', 'null'], default: '' },
    image_tag: { type: ['string', 'null'] },
  },
};

/** The backend that is the policy of a run: `vf-eval pipeline` and `vf-train pipeline` play it. */
export const POLICY = 'policy';

/** The client and the settings of a request. */
export interface Generation {
  readonly service: ChatService | typeof POLICY;
  readonly params: Values;
  readonly systemPrompt: string;
}

export function serviceOf2({ backend = 'openai', base_url: baseUrl, model_name: model, ...others }: Values): Generation['service'] {
  if (isPolicy(backend)) return POLICY;
  const { concurrency = CONCURRENCY, retries = RETRIES, stream = 'auto' } = others;
  const service = { baseUrl: String(baseUrl), model: String(model), concurrency: Number(concurrency), retries: Number(retries) };
  return { ...service, stream: streamSetting(stream, 'generation.stream') };
}

/** The settings of 3.0. Throws PipelineFileError. */
export function readSettings(parameters: Values): Generation {
  const { backend, backend_configs: configs, sampling_params: sampling, extra_params: extra, system_prompt: systemPrompt } = parameters;
  const params = { ...fieldsOf(sampling), extra_body: { ...fieldsOf(extra), ...fieldsOf(fieldsOf(sampling)['extra_body']) } };
  const system = typeof systemPrompt === 'string' ? systemPrompt : '';
  if (isPolicy(backend)) {
    readSampling(params, POLICY);
    return { service: POLICY, params, systemPrompt: system };
  }
  const openai = fieldsOf(configs)['openai'];
  if (!isObject(openai) || typeof openai['base_url'] !== 'string' || typeof openai['model_name'] !== 'string') {
    throw wrong('generation.backend_configs.openai must have base_url and model_name');
  }
  const {
    base_url: baseUrl,
    model_name: model,
    api_key: apiKey,
    concurrency = CONCURRENCY,
    retries = RETRIES,
    stream = 'auto',
  } = openai as Values & { base_url: string; model_name: string };
  assertCount('concurrency', concurrency, 1);
  assertCount('retries', retries, 0);
  readSampling(params);
  const key = typeof apiKey === 'string' && apiKey !== '' ? { apiKey } : {};
  return {
    service: { baseUrl, model, concurrency, retries, stream: streamSetting(stream, 'generation.backend_configs.openai.stream'), ...key },
    params,
    systemPrompt: system,
  };
}

/** Throws PipelineFileError for a backend that is neither the policy nor `openai`. */
function isPolicy(backend: unknown): boolean {
  if (backend === POLICY || backend === 'openai') return backend === POLICY;
  throw wrong(
    `generation.backend is ${JSON.stringify(backend)}, and must be openai or policy; serve the model, then set generation.backend=openai and its URL`,
  );
}

function streamSetting(value: unknown, where: string): StreamSetting {
  if (value === 'auto' || typeof value === 'boolean') return value;
  throw wrong(`${where} must be auto, true or false, got ${kindOrNumber(value)}`);
}

function assertCount(name: string, value: unknown, least: number): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return;
  throw wrong(`generation.backend_configs.openai.${name} must be an integer of at least ${least}, got ${kindOrNumber(value)}`);
}

/** Temperature and top_p that a file leaves out are the server's own. */
export interface GenerationSampling {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxNewTokens: number | null;
  readonly stop: readonly string[];
  /** True if the answer contains the string that ended it. */
  readonly keepsStop: boolean;
  readonly extra: Values;
}

/** Fields of `extra_body` count as if they were among the others, because the openai package sends them like that. Throws PipelineFileError. */
export function readSampling({ extra_body: extraBody, ...beside }: Values, service?: Generation['service']): GenerationSampling {
  if (extraBody !== undefined && extraBody !== null && !isObject(extraBody)) {
    throw wrong(`generation.sampling_params.extra_body must be a table, got ${kindOrNumber(extraBody)}`);
  }
  const { temperature = null, top_p: topP = null, max_tokens: maxNewTokens = null, stop = null, ...further } = { ...beside, ...extraBody };
  for (const [name, value] of Object.entries({ temperature, top_p: topP, max_tokens: maxNewTokens, ...further })) {
    const expected = value === null ? null : samplingRange(name, value);
    if (expected !== null) throw wrong(`generation.sampling_params.${name} must be ${expected}, got ${kindOrNumber(value)}`);
  }
  const stops = typeof stop === 'string' ? [stop] : (stop ?? []);
  if (!Array.isArray(stops) || !stops.every((each) => typeof each === 'string' && each !== '')) {
    throw wrong(`generation.sampling_params.stop must be a list of texts, got ${kindOrNumber(stop)}`);
  }
  // Null leaves a field out.
  const extra = Object.fromEntries(Object.entries(further).filter(([, value]) => value !== null));
  const foreign = service === POLICY ? Object.keys(extra).find((name) => name !== KEEPS_STOP && !isAskable(name)) : undefined;
  if (foreign !== undefined)
    throw wrong(
      `generation.sampling_params.${foreign} cannot be asked of the policy. Leave it out. vf-eval takes it for every request of a run: -S '{"${foreign}": …}'`,
    );
  return {
    temperature: temperature as number | null,
    topP: topP as number | null,
    maxNewTokens: maxNewTokens as number | null,
    stop: stops as string[],
    keepsStop: extra[KEEPS_STOP] === true,
    extra,
  };
}

function wrong(message: string): PipelineFileError {
  return new PipelineFileError(message, { fault: 'parameter' });
}
