/**
 * A server with vLLM's LoRA routes and no model: log-probs are a hash of prompt and token, moved by a hash of the adapter unless its B is 0.
 * Answers, statuses and the spread of NaN are those measured on vLLM 0.32.0; the publisher's contract runs over this server and over the real one.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export interface LoopbackLoraOptions {
  /** @default nano-base */
  readonly baseModel?: string;
  /** @default 16 */
  readonly maxRank?: number;
  /** False: no routes of development mode. @default true */
  readonly isDevelopment?: boolean;
  /** @default raw */
  readonly logProbsMode?: 'raw' | 'processed';
  /** False: `allowed_token_ids` is ignored, as by a server that does not know it. @default true */
  readonly forces?: boolean;
  /** False: no /metrics, or none about adapters. @default true */
  readonly hasMetrics?: boolean;
  /** False: no label of the weights, as before vLLM 0.32, and no pause. @default true */
  readonly changesInFlight?: boolean;
  /** As a vision-language model: the id of an image's tokens, and the side of a token's square in pixels. @default reads text only */
  readonly sees?: { readonly pad: number; readonly unit: number };
}

interface Loaded {
  readonly path: string;
  /** Empty where B is 0. */
  readonly fingerprint: string;
  readonly isNumeric: boolean;
}

interface Judged {
  readonly model: string;
  readonly prompt: readonly number[];
  readonly logprobs?: number;
  readonly prompt_logprobs?: number;
  readonly allowed_token_ids?: readonly number[];
  readonly ignore_eos?: boolean;
  readonly max_tokens?: number;
}

interface Generated {
  readonly model: string;
  readonly token_ids: readonly number[];
  readonly content_parts?: readonly { readonly url: string | null; readonly uuid?: string }[];
  readonly sampling_params: { readonly allowed_token_ids?: readonly number[]; readonly prompt_logprobs?: number };
}

interface Weights {
  label: string;
  isPaused: boolean;
}

export interface LoopbackLora extends Loopback {
  readonly baseModel: string;
  readonly weights: Readonly<Weights>;
  /** A digest of the weights under a name, empty where they do nothing; null without such an adapter. */
  readonly weightsOf: (name: string) => string | null;
}

export async function loraServer(options: LoopbackLoraOptions = {}): Promise<LoopbackLora> {
  const {
    baseModel = 'nano-base',
    maxRank = 16,
    isDevelopment = true,
    logProbsMode = 'raw',
    forces = true,
    hasMetrics = true,
    changesInFlight = true,
    sees = null,
  } = options;
  const adapters = new Map<string, Loaded>();
  /** Models of the requests that are computed now. */
  const running: string[] = [];
  /** What the last step reported: requests that ended since are still in it. */
  let reported: readonly string[] = [];
  let isPoisoned = false;
  const weights = { label: 'default', isPaused: false };

  /** By the names that they were sent under. */
  const images = new Map<string, { readonly digest: string; readonly length: number }>();

  /** Log-probs follow from ids and images alike; the weights of a text model's names are taken and ignored, as with Qwen3-VL. */
  const generate = ({ model, token_ids: given, content_parts: parts = [], sampling_params: sampling }: Generated, response: ServerResponse) => {
    const { pad, unit: side } = sees!;
    const adapter = adapters.get(model);
    const ids: number[] = [];
    const places: { offset: number; length: number; digest: string }[] = [];
    for (const [i, { url, uuid }] of parts.entries()) {
      const name = uuid ?? `unnamed ${url}`;
      if (url !== null && !images.has(name)) images.set(name, pictureOf(url, side));
      if (!images.has(name)) return refuse(response, 400, `Cache miss for image at index ${i} but data is not provided.`, 'BadRequestError');
    }
    const seen = parts.map(({ url, uuid }) => images.get(uuid ?? `unnamed ${url}`)!);
    for (const id of given) {
      const image = id === pad ? seen[places.length] : undefined;
      if (image !== undefined) places.push({ offset: ids.length, ...image });
      for (let i = 0; i < (image?.length ?? 1); i++) ids.push(id);
    }
    const fingerprint = adapter?.fingerprint ?? '';
    /** The context: ids, and an image's digest in place of its first pad. */
    const context = (end: number) => ids.slice(0, end).map((id, i) => (places.find(({ offset }) => offset === i)?.digest ?? id) as number);
    const [token = 7] = sampling.allowed_token_ids ?? [];
    const judged = ids.map((id, i) => (i === 0 ? null : { [id]: { logprob: logProb(fingerprint, context(i), id) } }));
    sendJson(response, 200, {
      prompt_token_ids: ids,
      mm_placeholders: places.length === 0 ? null : { image: places.map(({ offset, length }) => ({ offset, length })) },
      prompt_logprobs: sampling.prompt_logprobs === undefined ? null : judged,
      choices: [
        {
          index: 0,
          token_ids: [token],
          text: 'x',
          logprobs: { content: [{ token: 'x', logprob: logProb(fingerprint, context(ids.length), token) }] },
        },
      ],
    });
  };

  const complete = (body: Judged, response: ServerResponse) => {
    const adapter = adapters.get(body.model);
    if (adapter === undefined && body.model !== baseModel) {
      return refuse(response, 404, `The model \`${body.model}\` does not exist. Valid aliases: ${baseModel}.`, 'NotFoundError', 'model');
    }
    if (adapter?.isNumeric === true) isPoisoned = true;
    // Never done; ended some time after the client has left, as vLLM's are.
    if (body.ignore_eos === true && body.max_tokens! > 1000) {
      running.push(body.model);
      reported = [...running];
      response.once('close', () => setTimeout(() => running.splice(running.indexOf(body.model), 1), 40));
      return;
    }
    reported = [...running];
    if (isPoisoned) return refuse(response, 400, 'Out of range float values are not JSON compliant', 'BadRequestError');
    const fingerprint = adapter?.fingerprint ?? '';
    const { prompt } = body;
    const sampled = (forces ? body.allowed_token_ids?.[0] : undefined) ?? 7;
    const isForced = logProbsMode === 'processed' && body.allowed_token_ids !== undefined;
    const judged = prompt.map((token, i) => (i === 0 ? null : { [token]: { logprob: logProb(fingerprint, prompt.slice(0, i), token) } }));
    sendJson(response, 200, {
      model: body.model,
      choices: [
        {
          index: 0,
          text: 'x',
          token_ids: [sampled],
          logprobs: { token_logprobs: [isForced ? 0 : logProb(fingerprint, prompt, sampled)], tokens: ['x'] },
          prompt_logprobs: body.prompt_logprobs === undefined ? null : judged,
          finish_reason: 'length',
        },
      ],
    });
  };

  const load = (
    { lora_name: name, lora_path: path, load_inplace: inPlace }: { lora_name: string; lora_path: string; load_inplace?: boolean },
    response: ServerResponse,
  ) => {
    if (name === baseModel) return refuse(response, 400, `The lora adapter '${name}' conflicts with a served base model.`, 'InvalidUserInput');
    if (adapters.has(name) && inPlace !== true) {
      const advice = "If you want to load the adapter in place, set 'load_inplace' to True.";
      return refuse(response, 400, `The lora adapter '${name}' has already been loaded. ${advice}`, 'InvalidUserInput');
    }
    if (!existsSync(join(path, 'adapter_config.json'))) {
      return refuse(response, 404, `Loading lora ${name} failed: No adapter found for ${path}`, 'NotFoundError');
    }
    const { r } = JSON.parse(readFileSync(join(path, 'adapter_config.json'), 'utf8')) as { r: number };
    if (r > maxRank) {
      const cause = `LoRA rank ${r} is greater than max_lora_rank ${maxRank}.`;
      return refuse(
        response,
        500,
        `Call to add_lora method failed: Worker failed with error '${cause}', please check the stack trace above`,
        'InternalServerError',
      );
    }
    adapters.set(name, { path, ...readWeights(join(path, 'adapter_model.safetensors'), sees === null ? '' : 'language_model.') });
    response.writeHead(200).end(`Success: LoRA adapter '${name}' added successfully.`);
  };

  const unload = ({ lora_name: name }: { lora_name: string }, response: ServerResponse) => {
    if (!adapters.delete(name)) return refuse(response, 404, `The lora adapter '${name}' cannot be found.`, 'NotFoundError');
    response.writeHead(200).end(`Success: LoRA adapter '${name}' removed successfully.`);
  };

  const cards = () => [
    { id: baseModel, object: 'model', root: `/models/${baseModel}`, parent: null, max_model_len: 2048 },
    ...[...adapters].map(([id, { path }]) => ({ id, object: 'model', root: path, parent: baseModel, max_model_len: null })),
  ];

  const server = await loopback(async (request: IncomingMessage, response: ServerResponse) => {
    const text = await readText(request);
    const body = (text === '' ? {} : JSON.parse(text)) as never;
    const route = `${request.method} ${request.url?.split('?')[0]}`;
    if (route === 'POST /v1/completions') return complete(body, response);
    if (route === 'POST /inference/v1/generate' && sees !== null) return generate(body, response);
    if (route === 'POST /v1/load_lora_adapter') return load(body, response);
    if (route === 'POST /v1/unload_lora_adapter') return unload(body, response);
    if (route === 'GET /v1/models') return sendJson(response, 200, { object: 'list', data: cards() });
    if (hasMetrics && route === 'GET /metrics') {
      const labels = `max_lora="2",running_lora_adapters="${[...new Set(reported)].join(',')}",waiting_lora_adapters=""`;
      const old = 'vllm:lora_requests_info{max_lora="2",running_lora_adapters="long-gone",waiting_lora_adapters=""} 1.7e+09';
      return response.writeHead(200).end(`${old}\nvllm:lora_requests_info{${labels}} ${1.75e9 + performance.now() / 1000}\n`);
    }
    if (isDevelopment && route === 'GET /server_info') {
      return sendJson(response, 200, { vllm_config: { lora_config: { max_lora_rank: maxRank, max_loras: 2 } } });
    }
    if (isDevelopment && route === 'POST /reset_prefix_cache') {
      isPoisoned = false;
      return sendJson(response, 200, { success: true });
    }
    if (changesInFlight && answerInFlight(route, weights, { body, response })) return;
    sendJson(response, 404, { detail: 'Not Found' });
  });
  return Object.assign(server, { baseModel, weights, weightsOf: (name: string) => adapters.get(name)?.fingerprint ?? null });
}

/** The routes that pause a server and label its weights. */
function answerInFlight(
  route: string,
  weights: Weights,
  { body, response }: { readonly body: { readonly new_version?: string }; readonly response: ServerResponse },
): boolean {
  if (route === 'GET /is_paused') sendJson(response, 200, { is_paused: weights.isPaused });
  else if (route === 'GET /weight_info') sendJson(response, 200, { weight_version: weights.label });
  else if (route === 'POST /pause' || route === 'POST /resume') {
    weights.isPaused = route === 'POST /pause';
    sendJson(response, 200, { status: weights.isPaused ? 'paused' : 'resumed' });
  } else if (route === 'POST /update_weight_version') {
    weights.label = body.new_version!;
    sendJson(response, 200, { success: true, new_version: weights.label });
  } else return false;
  return true;
}

/** A data URL of a PNG. */
function pictureOf(url: string, side: number): { readonly digest: string; readonly length: number } {
  const bytes = Buffer.from(url.slice(url.indexOf(',') + 1), 'base64');
  const digest = createHash('sha256').update(bytes).digest('hex');
  return { digest, length: (bytes.readUInt32BE(16) / side) * (bytes.readUInt32BE(20) / side) };
}

/** Of an adapter's file: of the layers whose names hold `named`. */
export function readWeights(file: string, named = ''): Pick<Loaded, 'fingerprint' | 'isNumeric'> {
  const bytes = readFileSync(file);
  const headerLength = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, 8 + headerLength).toString('utf8')) as Record<string, { data_offsets: [number, number] }>;
  const b = Object.entries(header).filter(([name]) => name.endsWith('.lora_B.weight') && name.includes(named));
  const data = Buffer.concat(
    b.map(
      ([
        ,
        {
          data_offsets: [start, end],
        },
      ]) => bytes.subarray(8 + headerLength + start, 8 + headerLength + end),
    ),
  );
  const values = Array.from({ length: data.length >> 2 }, (_, i) => data.readFloatLE(4 * i));
  return {
    // Minus zero counts as zero.
    fingerprint: values.every((value) => value === 0) ? '' : createHash('sha256').update(data).digest('hex'),
    isNumeric: !values.every((value) => Math.abs(value) < 1e30),
  };
}

/** What this server says of a token: the log-prob of the model with the adapter of that fingerprint. */
export function logProb(fingerprint: string, before: readonly number[], token: number): number {
  const base = 1 + 9 * unit(`${before.join(',')};${token}`);
  return -base * (fingerprint === '' ? 1 : 1 + 0.5 * unit(`${fingerprint};${before.join(',')};${token}`));
}

/** In [0, 1). */
function unit(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32LE() / 2 ** 32;
}

function refuse(response: ServerResponse, code: number, message: string, type: string, param: string | null = null): void {
  sendJson(response, code, { error: { message, type, param, code } });
}
