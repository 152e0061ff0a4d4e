/**
 * The server `generation` of UltraRAG: asks a chat model for an answer to every prompt. A prompt whose request fails after its retries is a failed question.
 * UltraRAG instead writes the text `[ERROR]` as the answer, and continues with it.
 */
import type { ChatLease, PolicyClient, StreamSetting, TextSample } from '../../clients/policy-client.ts';
import { onAbort } from '../../core/abort.ts';
import { CancelledError, ConfigError, VfError } from '../../core/errors.ts';
import { samplingRange } from '../../core/sampling.ts';
import { strip } from '../../metrics/python-text.ts';
import type { KeySchema } from '../../schemas/config-keys.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { kindOrNumber } from '../../schemas/kind-of.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import type { CallContext, PipelineServer, PipelineTool, Values } from '../pipeline-server.ts';
import type { ChatService, ServiceOpeners } from '../service-openers.ts';
import { END_OF_TURN, withoutEndOfTurn } from './end-of-turn.ts';
import { texts } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

const END_OF_QUERY = '<|end_search_query|>';
/** vLLM's field: the answer contains the string that ended it. */
const KEEPS_STOP = 'include_stop_str_in_output';
const CONCURRENCY = 16;
const RETRIES = 3;

const SAMPLING = { temperature: 0.7, top_p: 0.8, max_tokens: 2048 };
const count = { type: 'integer', minimum: 0 } as const;
const OPENAI = { model_name: 'openbmb/MiniCPM4-8B', base_url: 'http://localhost:8000/v1', concurrency: CONCURRENCY, retries: RETRIES };

const PARAMETERS: Readonly<Record<ToolsVersion, Readonly<Record<string, KeySchema>>>> = {
  '2.0': {
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

/** The client and the settings of a request. */
interface Generation {
  readonly service: ChatService;
  readonly params: Values;
  readonly systemPrompt: string;
}

export function generationServer(version: ToolsVersion, openers: ServiceOpeners): PipelineServer {
  const clients = new Map<string, Promise<PolicyClient>>();
  const open = (service: ChatService) => {
    const key = JSON.stringify(service);
    const client = clients.get(key) ?? openers.chat(service);
    clients.set(key, client);
    return client;
  };
  const tools = version === '2.0' ? toolsOf2(open) : toolsOf3(open);
  return {
    parameters: PARAMETERS[version],
    tools,
    model: (parameters) => {
      const { baseUrl, model } = version === '2.0' ? serviceOf2(parameters) : readSettings(parameters).service;
      return { name: model, url: baseUrl };
    },
    // 3.0 keeps these fields in a table of their own.
    showsEndOfTurn: ({ sampling_params: sampling, extra_params: extra }) =>
      readSampling({ ...fieldsOf(sampling), extra_body: { ...fieldsOf(extra), ...fieldsOf(fieldsOf(sampling)['extra_body']) } }).keepsStop,
    showingEndOfTurn: ({ sampling_params: sampling, extra_params: extra }) => {
      if (version === '3.0') return { extra_params: { ...fieldsOf(extra), [KEEPS_STOP]: true } };
      return { sampling_params: { ...fieldsOf(sampling), extra_body: { ...fieldsOf(fieldsOf(sampling)['extra_body']), [KEEPS_STOP]: true } } };
    },
    close: async () => {
      for (const client of clients.values()) await client.then((opened) => opened.close()).catch(() => {});
    },
  };
}

type Open = (service: ChatService) => Promise<PolicyClient>;

function toolsOf2(open: Open): PipelineServer['tools'] {
  return {
    generate: {
      io: 'prompt_ls,model_name,base_url,sampling_params->ans_ls',
      description: 'an answer to each prompt, from an OpenAI-compatible server',
      arguments: { prompt_ls: texts },
      check: async ({ sampling_params }, { parameters }) => {
        readSampling(fieldsOf(sampling_params));
        serviceOf2(parameters);
      },
      run: async ({ prompt_ls, model_name, base_url, sampling_params }, context) => {
        const service = serviceOf2({ ...context.parameters, model_name, base_url });
        return answers(prompt_ls as readonly string[], { service, params: fieldsOf(sampling_params), systemPrompt: '' }, open, context);
      },
    },
  };
}

function serviceOf2({ base_url: baseUrl, model_name: model, concurrency = CONCURRENCY, retries = RETRIES, stream = 'auto' }: Values): ChatService {
  const service = { baseUrl: String(baseUrl), model: String(model), concurrency: Number(concurrency), retries: Number(retries) };
  return { ...service, stream: streamSetting(stream, 'generation.stream') };
}

function toolsOf3(open: Open): PipelineServer['tools'] {
  const init: PipelineTool = {
    io: 'backend_configs,sampling_params,extra_params,backend->None',
    description: 'chooses the model: backend openai, an OpenAI-compatible server',
    check: async (parameters) => void readSettings(parameters),
    run: async () => ({}),
  };
  return {
    generation_init: init,
    generate: {
      io: 'prompt_ls,system_prompt->ans_ls',
      description: 'an answer to each prompt',
      arguments: { prompt_ls: texts },
      check: async (_, { parameters }) => void readSettings(parameters),
      run: ({ prompt_ls }, context) => answers(prompt_ls as readonly string[], readSettings(context.parameters), open, context),
    },
  };
}

/** The settings of 3.0. Throws PipelineFileError. */
function readSettings(parameters: Values): Generation {
  const { backend, backend_configs: configs, sampling_params: sampling, extra_params: extra, system_prompt: systemPrompt } = parameters;
  if (backend !== 'openai') {
    throw wrong(
      `generation.backend is ${JSON.stringify(backend)}, but only openai is supported; serve the model, then set generation.backend=openai and its URL`,
    );
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
  const params = { ...fieldsOf(sampling), extra_body: { ...fieldsOf(extra), ...fieldsOf(fieldsOf(sampling)['extra_body']) } };
  readSampling(params);
  const key = typeof apiKey === 'string' && apiKey !== '' ? { apiKey } : {};
  return {
    service: { baseUrl, model, concurrency, retries, stream: streamSetting(stream, 'generation.backend_configs.openai.stream'), ...key },
    params,
    systemPrompt: typeof systemPrompt === 'string' ? systemPrompt : '',
  };
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
interface ReadSampling {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly maxNewTokens: number | null;
  readonly stop: readonly string[];
  /** True if the answer contains the string that ended it. */
  readonly keepsStop: boolean;
  readonly extra: Values;
}

/** Fields of `extra_body` count as if they were among the others, because the openai package sends them like that. Throws PipelineFileError. */
function readSampling({ extra_body: extraBody, ...beside }: Values): ReadSampling {
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
  return {
    temperature: temperature as number | null,
    topP: topP as number | null,
    maxNewTokens: maxNewTokens as number | null,
    stop: stops as string[],
    keepsStop: extra[KEEPS_STOP] === true,
    extra,
  };
}

async function answers(prompts: readonly string[], { service, params, systemPrompt }: Generation, open: Open, context: CallContext): Promise<Values> {
  const sampling = readSampling(params);
  const client = await open(service);
  const stop = new AbortController();
  using _ = onAbort(context.signal, () => stop.abort(context.signal.reason));
  const answerOne = async (prompt: string, position: number): Promise<string | null> => {
    const known = context.recall(position);
    if (typeof known === 'string') return known;
    try {
      const text = await ask(client, { prompt: withoutEndOfTurn(prompt), systemPrompt, sampling, signal: stop.signal });
      context.record(position, text);
      return text;
    } catch (error) {
      // No other prompt can succeed either, or the run is over.
      if (!(error instanceof VfError) || error.endsRun || error instanceof ConfigError || error instanceof CancelledError || stop.signal.aborted)
        throw error;
      context.fail(position, error);
      return null;
    }
  };
  const replies: (string | null)[] = [];
  let next = 0;
  // As many workers as requests in flight: thousands of waiting requests would take memory.
  const work = async () => {
    for (let i = next++; i < prompts.length; i = next++) replies[i] = await answerOne(prompts[i]!, i);
  };
  const pending = Array.from({ length: Math.min(service.concurrency, prompts.length) }, work);
  try {
    await Promise.all(pending);
    return { ans_ls: replies };
  } catch (error) {
    stop.abort(new CancelledError('Another request ended the run', { cause: error }));
    await Promise.allSettled(pending);
    throw error;
  }
}

interface Ask {
  readonly prompt: string;
  readonly systemPrompt: string;
  readonly sampling: ReadSampling;
  readonly signal: AbortSignal;
}

async function ask(client: PolicyClient, { prompt, systemPrompt, sampling, signal }: Ask): Promise<string> {
  await using lease = await client.lease(signal);
  const { temperature, topP, maxNewTokens, stop, keepsStop, extra } = sampling;
  const system = systemPrompt === '' ? [] : [{ role: 'system', content: systemPrompt } as const];
  const sample = await (lease as ChatLease).generate({
    prompt: [...system, { role: 'user', content: prompt }],
    sampling: { temperature, topP, extra },
    maxNewTokens,
    stop,
    dropsStop: !keepsStop,
    signal,
  });
  return keepsStop ? withEndOfTurn(sample, stop) : sample.text;
}

/**
 * A chat API never shows the token that ends the model's turn, which routers look for. It is appended at the place where a server that stops at this string and
 * keeps it would have left it. It is not appended after a query: that server would stop at the end of the query, before the turn ends.
 */
function withEndOfTurn({ text, finish, stopReason, stopIsGuess = false }: TextSample, stop: readonly string[]): string {
  const isOwnEnd = finish === 'stop' && !stopIsGuess && (stopReason === null || typeof stopReason === 'number');
  const isShown = [...stop, END_OF_TURN].some((each) => text.endsWith(each));
  return isOwnEnd && !isShown && !strip(text).endsWith(END_OF_QUERY) ? text + END_OF_TURN : text;
}

function wrong(message: string): PipelineFileError {
  return new PipelineFileError(message, { fault: 'parameter' });
}
