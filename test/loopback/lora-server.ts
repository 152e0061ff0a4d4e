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

export interface LoopbackLora extends Loopback {
  readonly baseModel: string;
}

export async function loraServer(options: LoopbackLoraOptions = {}): Promise<LoopbackLora> {
  const { baseModel = 'nano-base', maxRank = 16, isDevelopment = true, logProbsMode = 'raw', forces = true, hasMetrics = true } = options;
  const adapters = new Map<string, Loaded>();
  /** Models of the requests that are computed now. */
  const running: string[] = [];
  /** What the last step reported: requests that ended since are still in it. */
  let reported: readonly string[] = [];
  let isPoisoned = false;

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

  const load = ({ lora_name: name, lora_path: path }: { lora_name: string; lora_path: string }, response: ServerResponse) => {
    if (name === baseModel) return refuse(response, 400, `The lora adapter '${name}' conflicts with a served base model.`, 'InvalidUserInput');
    if (adapters.has(name)) {
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
    adapters.set(name, { path, ...readWeights(join(path, 'adapter_model.safetensors')) });
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
    sendJson(response, 404, { detail: 'Not Found' });
  });
  return Object.assign(server, { baseModel });
}

/** Of an adapter's file. */
export function readWeights(file: string): Pick<Loaded, 'fingerprint' | 'isNumeric'> {
  const bytes = readFileSync(file);
  const headerLength = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, 8 + headerLength).toString('utf8')) as Record<string, { data_offsets: [number, number] }>;
  const b = Object.entries(header).filter(([name]) => name.endsWith('.lora_B.weight'));
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
