/**
 * Finds out how a server turns images into tokens: the route, the ids, the size of a token's square, the bounds of pixels, the most images in a prompt. vLLM reports
 * none of this, so blank pictures are sent to `/tokenize`, which lists the tokens of an image.
 */
import { PolicyError } from '../core/errors.ts';
import { VllmGenerationShape, VllmTokenizeShape } from '../schemas/vllm.ts';
import type { ImageTokenRules } from '../tokenizer/policy-tokenizer.ts';
import { blankPng } from './blank-png.ts';
import { GENERATE_PATH } from './vllm-images.ts';
import type { VllmServer } from './vllm-server.ts';

/** A multiple of 28 and of 32, above the lowest and below the highest bound of every released processor. */
const SIDE = 448;
const LARGEST_SIDE = 4096;
/** More images than any prompt holds. */
const TOO_MANY = 257;

export interface ImageProbe {
  /** Null if the server cannot show images by token ids. */
  readonly rules: ImageTokenRules | null;
  /** Why not; null if it can. */
  readonly because: string | null;
}

export interface ImageProbeOptions {
  readonly model: string;
  readonly maxModelLen: number | null;
  readonly signal: AbortSignal;
}

export async function probeImages(server: VllmServer, options: ImageProbeOptions): Promise<ImageProbe> {
  const first = await tokensOf(server, [[SIDE, SIDE]], options).catch(refusal);
  if (first instanceof PolicyError) return { rules: null, because: `it takes no images: ${first.message}` };
  const { start, pad, end, count } = imageRun(first);
  const unit = SIDE / Math.sqrt(count);
  if (!Number.isInteger(unit))
    return {
      rules: null,
      because: `it gives an image of ${SIDE} × ${SIDE} pixels ${count} tokens, which is no square of squares; Qwen2.5-VL and Qwen3-VL are supported`,
    };
  const route = await server
    .post(
      GENERATE_PATH,
      {
        model: options.model,
        token_ids: first.slice(0, 2),
        sampling_params: { max_tokens: 1, logprobs: 0 },
        return_token_ids: true,
        output_mode: 'text',
      },
      VllmGenerationShape,
      options.signal,
    )
    .catch(refusal);
  if (route instanceof PolicyError)
    return { rules: null, because: `it has no route ${GENERATE_PATH}; start vLLM with --enable-scale-out (${route.message})` };
  const smallest = imageRun(await tokensOf(server, [[unit, unit]], options)).count;
  const side = unit * Math.floor(Math.min(LARGEST_SIDE, unit * Math.sqrt((options.maxModelLen ?? Infinity) * 0.9)) / unit);
  const largest = side <= SIDE ? count : imageRun(await tokensOf(server, [[side, side]], options)).count;
  const rules = {
    unit,
    minPixels: smallest * unit * unit,
    maxPixels: largest * unit * unit,
    maxPerPrompt: await mostImages(server, unit, options),
    start,
    pad,
    end,
  };
  return { rules, because: null };
}

/** The limit that the server names when it is sent too many images; null if it takes them. */
async function mostImages(server: VllmServer, unit: number, options: ImageProbeOptions): Promise<number | null> {
  const answer = await tokensOf(
    server,
    Array.from({ length: TOO_MANY }, () => [unit, unit] as const),
    options,
  ).catch(refusal);
  if (!(answer instanceof PolicyError)) return null;
  const limit = /at most (\d+) image/i.exec(answer.message);
  return limit === null ? null : Number(limit[1]);
}

/** The tokens of a message that holds these images alone. */
async function tokensOf(
  server: VllmServer,
  sizes: readonly (readonly [width: number, height: number])[],
  { model, signal }: ImageProbeOptions,
): Promise<readonly number[]> {
  const content = sizes.map(([width, height]) => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${blankPng(width, height).toString('base64')}` },
  }));
  return (await server.post('/tokenize', { model, messages: [{ role: 'user', content }] }, VllmTokenizeShape, signal)).tokens;
}

interface ImageRun {
  readonly start: number;
  readonly pad: number;
  readonly end: number;
  /** Tokens of the image. */
  readonly count: number;
}

/** The longest run of one id, and what stands before and after it. */
function imageRun(tokens: readonly number[]): ImageRun {
  let best = { from: 0, count: 0 };
  for (let from = 0; from < tokens.length;) {
    let to = from + 1;
    while (to < tokens.length && tokens[to] === tokens[from]) to++;
    if (to - from > best.count) best = { from, count: to - from };
    from = to;
  }
  const { from, count } = best;
  return { start: tokens[from - 1] ?? -1, pad: tokens[from] ?? -1, end: tokens[from + count] ?? -1, count };
}

/** A definitive refusal as a value; anything else is thrown. */
function refusal(error: unknown): PolicyError {
  if (error instanceof PolicyError && !error.retryable && error.status !== 401 && error.status !== 403) return error;
  throw error;
}
