/**
 * Finds out how a server turns images into tokens: the route, the ids, the size of a token's square, the bounds of pixels, the largest number of images in a prompt.
 * vLLM reports none of this, so blank pictures are sent to `/tokenize`, which lists the tokens of an image.
 */
import { PolicyError } from '../core/errors.ts';
import { type ImageSize, MAX_ASPECT } from '../core/image-size.ts';
import { VllmGenerationShape, VllmTokenizeShape } from '../schemas/vllm.ts';
import type { ImageTokenRules } from '../tokenizer/policy-tokenizer.ts';
import { blankPng } from './blank-png.ts';
import { GENERATE_PATH } from './vllm-images.ts';
import type { VllmServer } from './vllm-server.ts';

/** Sides of a token's square: Qwen2.5-VL, Qwen3-VL. */
const UNITS = [28, 32] as const;
/** Multiples of both units: the bounds of released processors hold all but the smallest. */
const SIDES = [224, 448, 672, 896] as const;
const LARGEST_SIDE = 4096;
/** More images than any prompt holds. */
const TOO_MANY = 257;

export interface ImageProbe {
  /** Null if the server cannot show images by token ids. */
  readonly rules: ImageTokenRules | null;
  /** The reason why it cannot, worded to follow "it"; null if it can. */
  readonly because: string | null;
  /** True if the model takes images over the chat API. */
  readonly takesImages: boolean;
}

export interface ImageProbeOptions {
  readonly model: string;
  readonly maxModelLen: number | null;
  readonly signal: AbortSignal;
}

/** The server's own explanation, if its answer has a message. */
function serverText({ message }: PolicyError): string {
  const quoted = /"message":\s*("(?:[^"\\]|\\.)*")/.exec(message)?.[1];
  try {
    return quoted === undefined ? message : (JSON.parse(quoted) as string);
  } catch {
    return message;
  }
}

/** The text in brackets, unless it only says that messages hold text, which adds nothing. */
function reason(text: string): string {
  return /^\d+ validation errors?: body\.messages\.\d+\.content/.test(text) ? '' : ` (${text})`;
}

export async function probeImages(server: VllmServer, options: ImageProbeOptions): Promise<ImageProbe> {
  const first = await tokensOf(server, [square(SIDES[0])], options).catch(refusal);
  if (first instanceof PolicyError) return { rules: null, because: `takes no images${reason(serverText(first))}`, takesImages: false };
  const { start, pad, end } = imageRun(first);
  const unit = await likelyUnit(server, pad, options);
  if (unit === null) {
    const because =
      'divides images in another way than Qwen2.5-VL and Qwen3-VL, which can be played by token ids, or has bounds of pixels ' +
      `that hold no image of ${SIDES.join(', ')} pixels squared`;
    return { rules: null, because, takesImages: true };
  }
  const route = await routeProblem(server, first.slice(0, 2), options);
  if (route !== null) return { rules: null, because: route, takesImages: true };
  const seen = new SeenTokens(server, { ...options, unit, pad });
  const fewest = await fewestTokens(seen);
  const most = await mostTokens(seen, Math.min(LARGEST_SIDE / unit, Math.sqrt((options.maxModelLen ?? Infinity) * 0.9)));
  if (fewest === null || most === null) return { rules: null, because: 'reports token counts that fit no image', takesImages: true };
  const [minPixels, maxPixels] = [fewest * unit * unit, most * unit * unit];
  const maxPerPrompt = await mostImages(server, unit, options);
  return { rules: { unit, minPixels, maxPixels, maxPerPrompt, start, pad, end }, because: null, takesImages: true };
}

/** The unit that explains the tokens of all squares, whatever the bounds are. If both do, the one that leaves more squares at their size. */
async function likelyUnit(server: VllmServer, pad: number, options: ImageProbeOptions): Promise<number | null> {
  const seen = new Map<number, number>();
  for (const side of SIDES) {
    const tokens = await tokensOf(server, [square(side)], options).catch(refusal);
    if (!(tokens instanceof PolicyError)) seen.set(side, tokens.filter((id) => id === pad).length);
  }
  // A model that gives every image the same number of tokens has no unit.
  if (new Set(seen.values()).size === 1) return null;
  const [likely] = UNITS.map((unit) => ({ unit, kept: keptSquares(unit, seen) })).toSorted((a, b) => b.kept - a.kept);
  return likely!.kept > 0 ? likely!.unit : null;
}

/** The number of squares that keep their size under this unit; 0 if no bounds explain the others. `seen`: tokens by side in pixels. */
function keptSquares(unit: number, seen: ReadonlyMap<number, number>): number {
  let kept = 0;
  // Bounds in tokens: the lowest is above `below` and at most `lowest`, the highest at least `highest` and less than `above`.
  let [below, lowest, highest, above] = [0, Infinity, 0, Infinity];
  for (const [side, tokens] of seen) {
    const own = (side / unit) ** 2;
    if (tokens === own) kept++;
    if (tokens <= own) highest = Math.max(highest, tokens);
    if (tokens >= own) lowest = Math.min(lowest, tokens);
    if (tokens < own) above = Math.min(above, (Math.sqrt(tokens) + 1) ** 2);
    if (tokens > own) below = Math.max(below, (Math.sqrt(tokens) - 1) ** 2);
  }
  return below < lowest && highest < above ? kept : 0;
}

const square = (side: number): ImageSize => ({ width: side, height: side });

async function routeProblem(server: VllmServer, ids: readonly number[], { model, signal }: ImageProbeOptions): Promise<string | null> {
  const fields = { model, token_ids: ids, sampling_params: { max_tokens: 1, logprobs: 0 }, return_token_ids: true, output_mode: 'text' };
  const answer = await server.post(GENERATE_PATH, fields, VllmGenerationShape, signal).catch(refusal);
  return answer instanceof PolicyError ? `has no route ${GENERATE_PATH}: start vLLM 0.32 or later with --enable-scale-out (${answer.message})` : null;
}

/** Asks how many tokens a blank image gets. */
class SeenTokens {
  readonly #server: VllmServer;
  readonly #options: ImageProbeOptions & Pick<ImageTokenRules, 'unit' | 'pad'>;

  constructor(server: VllmServer, options: ImageProbeOptions & Pick<ImageTokenRules, 'unit' | 'pad'>) {
    this.#server = server;
    this.#options = options;
  }

  /** Tokens of an image of this many units. */
  async of({ columns, rows }: Shape): Promise<number> {
    const { unit, pad } = this.#options;
    const tokens = await tokensOf(this.#server, [{ width: columns * unit, height: rows * unit }], this.#options);
    return tokens.filter((id) => id === pad).length;
  }
}

interface Shape {
  readonly columns: number;
  readonly rows: number;
}

/** The lowest bound in tokens: smaller images are enlarged. Null if no square image has as many tokens as the server reports. */
async function fewestTokens(seen: SeenTokens): Promise<number | null> {
  // A single square is enlarged to the first square that reaches the bound.
  const reached = await sideOf(seen, 1);
  return reached === null ? null : lastKept(seen, shapes((reached - 1) ** 2 + 1, reached ** 2).toReversed());
}

/** The highest bound in tokens: larger images are shrunk. If the window holds no such image, the largest one that it holds. Null as above. */
async function mostTokens(seen: SeenTokens, longestSide: number): Promise<number | null> {
  const side = Math.max(1, Math.floor(longestSide));
  // A square above the bound is shrunk to the last square below it.
  const reached = await sideOf(seen, side);
  if (reached === null || reached >= side) return reached === null ? null : reached ** 2;
  return lastKept(seen, shapes(reached ** 2, (reached + 1) ** 2 - 1));
}

/** The side in units to which the server resizes a square of `side` units; null if its tokens form no square. */
async function sideOf(seen: SeenTokens, side: number): Promise<number | null> {
  const reached = Math.sqrt(await seen.of({ columns: side, rows: side }));
  return Number.isInteger(reached) && reached > 0 ? reached : null;
}

/**
 * Tokens of the last image that the server does not resize. The server resizes every image after that one. The second image is asked for first, because most
 * bounds are squares; halving finds any other.
 */
async function lastKept(seen: SeenTokens, images: readonly Shape[]): Promise<number> {
  // images[kept] is not resized, images[resized] is.
  let kept = 0;
  let resized = images.length;
  for (let next = 1; resized - kept > 1; next = Math.floor((kept + resized) / 2)) {
    const image = images[next]!;
    if ((await seen.of(image)) === image.columns * image.rows) kept = next;
    else resized = next;
  }
  const { columns, rows } = images[kept]!;
  return columns * rows;
}

/** For every number of tokens in the range that an image can have, the squarest image. In ascending order. */
function shapes(from: number, to: number): readonly Shape[] {
  const found = [];
  for (let tokens = from; tokens <= to; tokens++) {
    let rows = Math.floor(Math.sqrt(tokens));
    while (tokens % rows !== 0) rows--;
    if (tokens / rows <= MAX_ASPECT * rows) found.push({ columns: tokens / rows, rows });
  }
  return found;
}

/** The limit that the server names when it receives too many images; null if it takes them. */
async function mostImages(server: VllmServer, unit: number, options: ImageProbeOptions): Promise<number | null> {
  const sizes = Array.from({ length: TOO_MANY }, () => ({ width: unit, height: unit }));
  const answer = await tokensOf(server, sizes, options).catch(refusal);
  if (!(answer instanceof PolicyError)) return null;
  const limit = /at most (\d+) image/i.exec(answer.message);
  return limit === null ? null : Number(limit[1]);
}

/** The tokens of a message that holds these images alone. */
async function tokensOf(server: VllmServer, sizes: readonly ImageSize[], { model, signal }: ImageProbeOptions): Promise<readonly number[]> {
  const content = sizes.map(({ width, height }) => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${blankPng(width, height).toString('base64')}` },
  }));
  return (await server.post('/tokenize', { model, messages: [{ role: 'user', content }] }, VllmTokenizeShape, signal)).tokens;
}

interface ImageRun {
  readonly start: number;
  readonly pad: number;
  readonly end: number;
}

/** The longest run of one id, and the ids before and after it. */
function imageRun(tokens: readonly number[]): ImageRun {
  let best = { from: 0, count: 0 };
  for (let from = 0; from < tokens.length;) {
    let to = from + 1;
    while (to < tokens.length && tokens[to] === tokens[from]) to++;
    if (to - from > best.count) best = { from, count: to - from };
    from = to;
  }
  const { from, count } = best;
  return { start: tokens[from - 1] ?? -1, pad: tokens[from] ?? -1, end: tokens[from + count] ?? -1 };
}

/** A definitive refusal as a value; anything else is thrown. */
function refusal(error: unknown): PolicyError {
  if (error instanceof PolicyError && !error.retryable && error.status !== 401 && error.status !== 403) return error;
  throw error;
}
