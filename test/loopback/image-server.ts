/**
 * A loopback imitation of a vLLM with a vision-language model. Its words mean nothing, but its log-probs follow from every id and picture of the prompt. What it does
 * with pictures and ids is what the real one does: both pass test/contracts/image-server.ts.
 */
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ImageSize, imageTokens, smartResize } from '../../src/core/image-size.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import type { ModelTokenizer } from '../../src/tokenizer/tokenizer-types.ts';
import { rulesOf, STOPS, type VlmForm } from '../images/vlm-client.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

export interface ImageServerOptions {
  readonly form?: VlmForm;
  /** Replace the form's bounds of pixels. */
  readonly bounds?: { readonly minPixels: number; readonly maxPixels: number };
  /** Most pictures in a prompt; null for any number. @default 16 */
  readonly limit?: number | null;
  /** As started with --enable-scale-out. @default true */
  readonly hasRoute?: boolean;
  /** False for a model that reads text only. @default true */
  readonly sees?: boolean;
  /** @default 4096 */
  readonly maxModelLen?: number;
  /** Its chat template. @default ChatML */
  readonly template?: string;
}

export interface ImageServer extends Loopback {
  /** Bodies of the requests for generations with pictures, in order. */
  readonly generations: readonly string[];
  /** Forgets every picture, as after a restart. */
  forget(): void;
}

interface Picture extends ImageSize {
  readonly digest: string;
}

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const NANO = join(import.meta.dirname, '../../models/nano-base');
/** As scripts/random-vlm/make.py writes it. */
const VISION_TOKENS = ['<|vision_start|>', '<|vision_end|>', '<|vision_pad|>', '<|image_pad|>', '<|video_pad|>'];
const TEMPLATE =
  "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}{%- endfor -%}" +
  "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

export async function imageServer(options: ImageServerOptions = {}): Promise<ImageServer> {
  const vllm = new Imitation(options, await visionTokenizer(options.template ?? TEMPLATE));
  const server = await loopback(async (request, response) => {
    const text = await readText(request);
    try {
      const answer = vllm.answer(request.url!, text);
      // Late enough that a client can leave.
      setTimeout(() => sendJson(response, 200, answer), 2);
    } catch (error) {
      refuse(response, error);
    }
  });
  return Object.assign(server, { generations: vllm.generations, forget: () => vllm.known.clear() });
}

function refuse(response: ServerResponse, error: unknown): void {
  const status = error instanceof Refusal ? error.status : 500;
  sendJson(response, status, { error: { message: (error as Error).message, type: 'BadRequestError', param: null, code: status } });
}

async function visionTokenizer(chatTemplate: string): Promise<ModelTokenizer> {
  const folder = mkdtempSync(join(tmpdir(), 'vf-vision-tokenizer-'));
  try {
    cpSync(NANO, folder, { recursive: true });
    const tokenizer = JSON.parse(readFileSync(join(NANO, 'tokenizer.json'), 'utf8')) as { added_tokens: Record<string, unknown>[] };
    const { pad } = rulesOf('qwen3_vl');
    for (const [i, content] of VISION_TOKENS.entries())
      tokenizer.added_tokens.push({ ...tokenizer.added_tokens[0], id: pad - VISION_TOKENS.indexOf('<|image_pad|>') + i, content, special: true });
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
    return await openTokenizer(folder, { chatTemplate });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Part {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: { readonly url: string };
  readonly url?: string | null;
  readonly uuid?: string;
}

interface Fields {
  readonly prompt?: string | number[];
  readonly messages?: readonly { readonly role: string; readonly content: string | readonly Part[] }[];
  readonly add_generation_prompt?: boolean;
  readonly tokens?: number[];
  readonly token_ids?: number[];
  readonly content_parts?: readonly Part[];
  readonly sampling_params?: Fields;
  readonly max_tokens?: number;
  readonly stop?: readonly string[];
  readonly stop_token_ids?: readonly number[];
  readonly allowed_token_ids?: readonly number[];
}

class Imitation {
  readonly known = new Map<string, Picture>();
  readonly generations: string[] = [];
  readonly #tokenizer: ModelTokenizer;
  readonly #form: VlmForm;
  readonly #rules: ReturnType<typeof rulesOf>;
  readonly #options: Required<Omit<ImageServerOptions, 'form' | 'bounds' | 'template'>>;
  /** Tokens of words, which are the same alone and among others. */
  readonly #words: readonly number[];

  constructor(
    { form = 'qwen3_vl', bounds, limit = 16, hasRoute = true, sees = true, maxModelLen = 4096 }: ImageServerOptions,
    tokenizer: ModelTokenizer,
  ) {
    this.#tokenizer = tokenizer;
    this.#form = form;
    this.#rules = { ...rulesOf(form), ...bounds };
    this.#options = { limit, hasRoute, sees, maxModelLen };
    this.#words = Array.from({ length: 1500 }, (_, id) => id).filter((id) => /^ [a-z]{2,}$/i.test(this.#decode([id])));
  }

  answer(path: string, text: string): unknown {
    const fields = (text === '' ? {} : JSON.parse(text)) as Fields;
    const { maxModelLen, hasRoute } = this.#options;
    if (path === '/health') return {};
    if (path === '/v1/models') return { object: 'list', data: [{ id: this.#form, object: 'model', max_model_len: maxModelLen }] };
    if (path === '/tokenize') return this.#tokenize(fields);
    if (path === '/detokenize') return { prompt: this.#decode(fields.tokens!, false) };
    if (path === '/v1/completions') return this.#completion(fields);
    if (path === '/inference/v1/generate' && hasRoute) {
      this.generations.push(text);
      return this.#generation(fields);
    }
    throw new Refusal(404, 'Not Found');
  }

  #decode(ids: readonly number[], skipSpecialTokens = true): string {
    return this.#tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens });
  }

  #tokenize({ prompt, messages, add_generation_prompt: addGenerationPrompt = true }: Fields): unknown {
    const { maxModelLen } = this.#options;
    if (messages === undefined) {
      const tokens = [...this.#tokenizer.encode(prompt as string, { addSpecialTokens: false })];
      return { count: tokens.length, max_model_len: maxModelLen, tokens, token_strs: tokens.map((id) => this.#tokenizer.spelling(id)) };
    }
    const pictures: Picture[] = [];
    const spelled = messages.map(({ role, content }) => {
      if (typeof content === 'string') return { role, content };
      const parts = content.map(({ text, image_url: image }) => {
        if (image === undefined) return text!;
        pictures.push(this.#decoded(image.url));
        return '<|vision_start|><|image_pad|><|vision_end|>';
      });
      return { role, content: parts.join('') };
    });
    this.#assertFew(pictures.length);
    const rendered = this.#tokenizer.renderChat(spelled, { addGenerationPrompt, continueFinalMessage: false, variables: {} });
    const { ids: tokens } = this.#expanded([...this.#tokenizer.encode(rendered, { addSpecialTokens: false })], pictures);
    return { count: tokens.length, max_model_len: maxModelLen, tokens, token_strs: null };
  }

  #completion(fields: Fields): unknown {
    const { maxModelLen } = this.#options;
    const prompt = fields.prompt as number[];
    const { max_tokens: limit = 16 } = fields;
    if (prompt.length + limit > maxModelLen)
      throw new Refusal(
        400,
        `This model's maximum context length is ${maxModelLen} tokens. However, you requested ${limit} output tokens and your prompt has ${prompt.length}.`,
      );
    const { ids, text, logProbs, finish, stopReason } = this.#sampled(prompt, [], fields);
    const logprobs = { text_offset: [], top_logprobs: null, token_logprobs: logProbs, tokens: ids.map((id) => this.#decode([id], false)) };
    const choice = { index: 0, text, token_ids: ids, logprobs, finish_reason: finish, stop_reason: stopReason, prompt_token_ids: prompt };
    return { id: 'cmpl-0', choices: [choice], usage: usageOf(prompt, ids) };
  }

  #generation({ token_ids: given, content_parts: parts = [], sampling_params: sampling }: Fields): unknown {
    const { maxModelLen, sees } = this.#options;
    if (parts.length > 0 && !sees) throw new Refusal(400, `${this.#form} is not a multimodal model`);
    if (given!.length > maxModelLen)
      throw new Refusal(400, `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains ${given!.length}.`);
    const missing = parts.findIndex(({ url = null, uuid }) => url === null && (uuid === undefined || !this.known.has(uuid)));
    // Before any bytes are taken, so that a picture cannot be named next to its own bytes.
    if (missing >= 0) throw new Refusal(400, `Cache miss for image at index ${missing} but data is not provided.`);
    const pictures = parts.map((part) => this.#received(part));
    this.#assertFew(pictures.length);
    const { ids: prompt, places } = this.#expanded(given!, pictures);
    if (places.length < pictures.length) throw new Refusal(500, `Failed to apply prompt replacement for mm_items['image'][${places.length}]`);
    if (prompt.length > maxModelLen)
      throw new Refusal(400, `The decoder prompt (length ${prompt.length}) is longer than the maximum model length of ${maxModelLen}.`);
    const { ids, text, logProbs, finish, stopReason } = this.#sampled(prompt, pictures, sampling!);
    const content = ids.map((id, i) => ({ token: this.#decode([id], false), logprob: logProbs[i], bytes: [] }));
    return {
      request_id: 'generate-tokens-0',
      usage: usageOf(prompt, ids),
      prompt_token_ids: prompt,
      mm_placeholders: places.length === 0 ? null : { image: places },
      choices: [{ index: 0, finish_reason: finish, stop_reason: stopReason, token_ids: ids, text, logprobs: { content } }],
    };
  }

  /** A picture of a request: a known name counts more than the bytes. */
  #received({ url, uuid }: Part): Picture {
    const known = uuid === undefined ? undefined : this.known.get(uuid);
    if (known !== undefined) return known;
    const picture = this.#decoded(url!);
    if (uuid !== undefined) this.known.set(uuid, picture);
    return picture;
  }

  #decoded(url: string): Picture {
    if (!this.#options.sees) throw new Refusal(400, `${this.#form} is not a multimodal model`);
    const base64 = url.replace(/^data:image\/png;base64,/, '');
    if (!/^[A-Za-z0-9+/=]*$/.test(base64)) throw new Refusal(400, 'Non-base64 digit found');
    const bytes = Buffer.from(base64, 'base64');
    if (bytes.length < 33 || !bytes.subarray(1, 4).equals(Buffer.from('PNG')) || !bytes.includes('IEND'))
      throw new Refusal(400, 'Failed to load image: cannot identify image file <_io.BytesIO object>');
    return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20), digest: createHash('sha256').update(bytes).digest('hex') };
  }

  #assertFew(count: number): void {
    const { limit } = this.#options;
    if (limit !== null && count > limit) throw new Refusal(400, `At most ${limit} image(s) may be provided in one prompt. (parameter=image)`);
  }

  /** Each picture takes the place of the next pad; pads without a picture stay. */
  #expanded(given: readonly number[], pictures: readonly Picture[]): { ids: number[]; places: { offset: number; length: number }[] } {
    const ids: number[] = [];
    const places: { offset: number; length: number }[] = [];
    for (const id of given) {
      const picture = pictures[places.length];
      if (id !== this.#rules.pad || picture === undefined) {
        ids.push(id);
        continue;
      }
      const size = smartResize(picture, this.#rules);
      if (size === null) throw new Refusal(400, `Failed to apply ${this.#form} processor`);
      const length = imageTokens(size, this.#rules.unit);
      places.push({ offset: ids.length, length });
      for (let i = 0; i < length; i++) ids.push(this.#rules.pad);
    }
    return { ids, places };
  }

  #sampled(
    prompt: readonly number[],
    pictures: readonly Picture[],
    { max_tokens: limit = 16, stop = [], stop_token_ids: ends = [], allowed_token_ids: allowed }: Fields,
  ) {
    const seen = createHash('sha256')
      .update(JSON.stringify([prompt, pictures.map(({ digest }) => digest)]))
      .digest();
    const spelledStop = [...this.#tokenizer.encode(STOPS[this.#form], { addSpecialTokens: false })];
    const ids: number[] = [];
    const logProbs: number[] = [];
    let text = '';
    let stopReason: string | number | null = null;
    while (ids.length < limit && stopReason === null) {
      const at = ids.length;
      const id = allowed?.[0] ?? spelledStop[at - 4] ?? this.#words[seen.readUInt16BE((2 * at) % 30) % this.#words.length]!;
      ids.push(id);
      logProbs.push(-1 - seen.readUInt16BE((2 * at) % 30) / 65536);
      text = this.#decode(ids);
      const found = stop.find((end) => text.includes(end));
      if (found !== undefined) text = text.slice(0, text.indexOf(found) + found.length);
      stopReason = found ?? (ends.includes(id) ? id : null);
    }
    return { ids, text, logProbs, finish: stopReason === null ? 'length' : 'stop', stopReason };
  }
}

function usageOf(prompt: readonly number[], ids: readonly number[]): unknown {
  return { prompt_tokens: prompt.length, completion_tokens: ids.length, total_tokens: prompt.length + ids.length };
}
