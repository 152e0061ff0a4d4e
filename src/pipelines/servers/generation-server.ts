/**
 * The server `generation` of UltraRAG: asks a chat model for an answer to every prompt. A prompt whose request fails after its retries is a failed question.
 * UltraRAG instead writes the text `[ERROR]` as the answer, and continues with it.
 */
import type { ChatLease, PolicyClient, TextSample } from '../../clients/policy-client.ts';
import { onAbort } from '../../core/abort.ts';
import { CancelledError, ConfigError, VfError } from '../../core/errors.ts';
import { strip } from '../../metrics/python-text.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { CallContext, PipelineServer, PipelineTool, Values } from '../pipeline-server.ts';
import type { ChatService, ServiceOpeners } from '../service-openers.ts';
import { askPolicy } from './ask-policy.ts';
import { END_OF_TURN, withoutEndOfTurn } from './end-of-turn.ts';
import {
  CONCURRENCY,
  type Generation,
  GENERATION_PARAMETERS,
  type GenerationSampling,
  KEEPS_STOP,
  POLICY,
  readSampling,
  readSettings,
  serviceOf2,
} from './generation-settings.ts';
import { texts } from './tool-kit.ts';
import type { ToolsVersion } from './tools-version.ts';

const END_OF_QUERY = '<|end_search_query|>';

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
    parameters: GENERATION_PARAMETERS[version],
    tools,
    model: (parameters) => {
      const service = version === '2.0' ? serviceOf2(parameters) : readSettings(parameters).service;
      return service === POLICY ? POLICY : { name: service.model, url: service.baseUrl };
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
        readSampling(fieldsOf(sampling_params), serviceOf2(parameters));
      },
      run: async ({ prompt_ls, model_name, base_url, sampling_params }, context) => {
        const service = serviceOf2({ ...context.parameters, model_name, base_url });
        return answers(prompt_ls as readonly string[], { service, params: fieldsOf(sampling_params), systemPrompt: '' }, open, context);
      },
    },
  };
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

async function answers(prompts: readonly string[], { service, params, systemPrompt }: Generation, open: Open, context: CallContext): Promise<Values> {
  const sampling = readSampling(params);
  const generate = service === POLICY ? policyGenerate(context) : clientGenerate(await open(service));
  const concurrency = service === POLICY ? CONCURRENCY : service.concurrency;
  const stop = new AbortController();
  using _ = onAbort(context.signal, () => stop.abort(context.signal.reason));
  const answerOne = async (prompt: string, position: number): Promise<string | null> => {
    const known = context.recall(position);
    if (typeof known === 'string') return known;
    try {
      const text = await generate({ prompt: withoutEndOfTurn(prompt), systemPrompt, sampling, signal: stop.signal });
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
  const pending = Array.from({ length: Math.min(concurrency, prompts.length) }, work);
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
  readonly sampling: GenerationSampling;
  readonly signal: AbortSignal;
}

type Generate = (ask: Ask) => Promise<string>;

function clientGenerate(client: PolicyClient): Generate {
  return async ({ prompt, systemPrompt, sampling, signal }) => {
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
  };
}

function policyGenerate({ policy }: CallContext): Generate {
  if (policy === undefined) throw new ConfigError('generation.backend is policy, and this call has no policy');
  return async ({ sampling: { keepsStop, ...sampling }, ...ask }) => {
    const sample = await askPolicy(policy, { ...ask, ...sampling });
    if (!keepsStop) return sample.text;
    const { text, stopReason } = sample;
    return withEndOfTurn({ ...sample, text: typeof stopReason === 'string' ? text + stopReason : text }, sampling.stop);
  };
}

/**
 * A chat API never shows the token that ends the model's turn, which routers look for. It is appended at the place where a server that stops at this string and
 * keeps it would have left it. It is not appended after a query: that server would stop at the end of the query, before the turn ends.
 */
function withEndOfTurn({ text, finish, stopReason, stopIsGuess = false }: Omit<TextSample, 'usage'>, stop: readonly string[]): string {
  const isOwnEnd = finish === 'stop' && !stopIsGuess && (stopReason === null || typeof stopReason === 'number');
  const isShown = [...stop, END_OF_TURN].some((each) => text.endsWith(each));
  return isOwnEnd && !isShown && !strip(text).endsWith(END_OF_QUERY) ? text + END_OF_TURN : text;
}
