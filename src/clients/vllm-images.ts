/**
 * Generations over vLLM's `/inference/v1/generate`, for prompts with images and for weights that change meanwhile: one placeholder for each image on the wire, the bytes as data URLs, each image once
 * per server. The route answers 200 to many wrong requests, so every answer is compared with the request: the prompt token by token, the places of the images.
 */
import { ConfigError, PolicyError, PrefixBreakError } from '../core/errors.ts';
import type { ImageStore, PlacedImage } from '../core/message.ts';
import { type VllmGeneration, VllmGenerationShape } from '../schemas/vllm.ts';
import type { ImageTokenRules, PolicyRef, TokenSample } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';
import type { SentImages } from './sent-images.ts';
import { type CompletionContext, parseAnswer, readChoice, withoutEcho } from './vllm-tokens-wire.ts';
import { sampledVersions } from './vllm-weight-versions.ts';

export const GENERATE_PATH = '/inference/v1/generate';

/** Fields of a completion that this route has outside `sampling_params`. */
const OUTSIDE = new Set(['model', 'cache_salt', 'return_token_ids']);
/** Fields of a completion that this route does not have. */
const LEFT_OUT = new Set(['return_tokens_as_token_ids']);

/** The growing prompt of one trajectory as this route takes it: a placeholder stands for all tokens of an image. */
export class CompactPrompt {
  #digits = '';
  /** Tokens of the whole prompt that are in the digits. */
  #length = 0;
  #images: readonly PlacedImage[] = [];

  /** Appends the new tokens. The ids extend those before; throws PrefixBreakError if the images do not. */
  extendTo(prompt: Int32Array, images: readonly PlacedImage[]): void {
    if (prompt.length < this.#length) {
      this.#digits = '';
      this.#length = 0;
      this.#images = [];
    }
    const changed = this.#images.findIndex(({ sha256, offset }, i) => sha256 !== images[i]?.sha256 || offset !== images[i].offset);
    if (changed >= 0)
      throw new PrefixBreakError(
        `The prompt does not extend the previous one: image ${changed} is ${images[changed] === undefined ? 'missing' : 'another one'}`,
      );
    const pieces: string[] = this.#digits === '' ? [] : [this.#digits];
    let at = this.#length;
    for (const { offset, length } of images.slice(this.#images.length)) {
      pieces.push(prompt.subarray(at, offset + 1).join(','));
      at = offset + length;
    }
    if (at < prompt.length) pieces.push(prompt.subarray(at).join(','));
    this.#digits = pieces.join(',');
    this.#length = prompt.length;
    this.#images = [...images];
  }

  get digits(): string {
    return this.#digits;
  }
}

/** The request without the prompt: the fields of a completion that this route has. */
export function generationFields(completion: Readonly<Record<string, unknown>>, policy: PolicyRef): Record<string, unknown> {
  const entries = Object.entries(completion).filter(([name]) => !LEFT_OUT.has(name));
  const sampling = Object.fromEntries(entries.filter(([name]) => !OUTSIDE.has(name)));
  return {
    ...Object.fromEntries(entries.filter(([name]) => OUTSIDE.has(name))),
    model: policy.model,
    sampling_params: { ...sampling, skip_special_tokens: true },
    output_mode: 'text',
  };
}

/**
 * The images of a request: by name if the server has them, else with their bytes. An image that occurs twice has its bytes both times, because vLLM looks for all
 * names before it takes any bytes. A name is the digest of the bytes, because vLLM accepts any name.
 */
export async function contentParts(
  images: readonly PlacedImage[],
  { sent, store }: { readonly sent: SentImages; readonly store: ImageStore | null },
): Promise<unknown[]> {
  return Promise.all(
    images.map(async (image) => ({ type: 'image_url', url: sent.has(image) ? null : await dataUrl(image, store), uuid: image.sha256 })),
  );
}

/** The body of a request. */
export function generationBody(fields: Readonly<Record<string, unknown>>, parts: readonly unknown[], prompt: CompactPrompt): string {
  const shown = parts.length === 0 ? fields : { ...fields, content_parts: parts };
  return `${JSON.stringify(shown).slice(0, -1)},"token_ids":[${prompt.digits}]}`;
}

/** True for the answer that the server no longer has an image that was named without its bytes. */
export function isCacheMiss(error: unknown): boolean {
  return error instanceof PolicyError && error.status === 400 && /cache miss/i.test(error.message);
}

/** `versions` are those of a policy in flight, whose answer must say which weights sampled which token. */
export interface GenerationContext extends CompletionContext {
  readonly versions?: Pick<PolicyVersions, 'versionNamed'>;
}

/** Reads and checks one generation. Throws PrefixBreakError if the server saw another prompt or other images, PolicyError for an answer that cannot be correct. */
export function readGeneration(body: Buffer, images: readonly PlacedImage[], context: GenerationContext): TokenSample {
  const { where, prompt, prompted, versions } = context;
  const { text: json, isEcho } = withoutEcho(body, prompted.digits);
  const answer = parseAnswer(json, VllmGenerationShape, where);
  const places = answer.mm_placeholders?.image ?? [];
  const isPlaced =
    places.length === images.length && places.every(({ offset, length }, i) => offset === images[i]!.offset && length === images[i]!.length);
  if (!isPlaced) {
    throw new PrefixBreakError(
      `${where} placed images at ${placesText(places)}, but they were meant to be at ${placesText(images)}. Serve the model with its own image processor and the pixel bounds that it had at the start of the run, and give images their own width and height.`,
    );
  }
  if (!isEcho) throw new PrefixBreakError(otherPrompt(answer.prompt_token_ids, prompt, where));
  const sample = readChoice(completionOf(answer), context);
  if (versions === undefined) return sample;
  return { ...sample, versions: sampledVersions(answer.choices[0]!.weight_versions, sample.ids.length, { versions, where }) };
}

/** Throws PolicyError for more images than the server takes; it would refuse them after reading them all. */
export function assertFewImages(images: readonly PlacedImage[], rules: ImageTokenRules | null): void {
  const most = rules?.maxPerPrompt ?? null;
  if (most === null || images.length <= most) return;
  throw new PolicyError(
    `The prompt holds ${images.length} images, but the server takes at most ${most}. Start vLLM with --limit-mm-per-prompt '{"image": ${images.length}}', or show fewer.`,
  );
}

async function dataUrl(image: PlacedImage, store: ImageStore | null): Promise<string> {
  if (store === null) throw new ConfigError('The prompt contains an image, but the client has no image store. Pass one with the option images.');
  const bytes = await store.get(image);
  return `data:${image.mediaType};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`;
}

/** The answer in the form of a completion. */
function completionOf({ choices, usage }: VllmGeneration) {
  const { text, token_ids, logprobs, finish_reason, stop_reason } = choices[0]!;
  const { content } = logprobs;
  return {
    choices: [
      {
        text,
        token_ids,
        logprobs: {
          tokens: content.map(({ token }) => token),
          token_logprobs: content.map(({ logprob }) => logprob),
          top_logprobs: content.map(({ top_logprobs: top = [] }) => Object.fromEntries(top.map(({ token, logprob }) => [token, logprob]))),
        },
        finish_reason,
        ...(stop_reason === undefined ? {} : { stop_reason }),
      },
    ],
    ...(usage === undefined ? {} : { usage }),
  };
}

function otherPrompt(theirs: readonly number[] | null | undefined, ours: Int32Array, where: string): string {
  if (!theirs) return `${where} did not return the tokens of the prompt, so it is not known what the policy saw. Use vLLM 0.32 or later.`;
  let at = 0;
  while (at < ours.length && theirs[at] === ours[at]) at++;
  return `${where} continued another prompt than it was sent: token ${at} of ${ours.length} is ${theirs[at] ?? 'missing'} instead of ${ours[at] ?? 'the end'}`;
}

function placesText(places: readonly { readonly offset: number; readonly length: number }[]): string {
  if (places.length === 0) return 'no place';
  const shown = places.slice(0, 8).map(({ offset, length }) => `${offset} (${length} tokens)`);
  return places.length > 8 ? `${shown.join(', ')} and ${places.length - 8} more` : shown.join(', ');
}
