import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SentImages } from '../../src/clients/sent-images.ts';
import {
  assertFewImages,
  CompactPrompt,
  contentParts,
  generationBody,
  generationFields,
  isCacheMiss,
  readGeneration,
} from '../../src/clients/vllm-images.ts';
import { PromptBytes } from '../../src/clients/vllm-tokens-wire.ts';
import { ConfigError, PolicyError, PrefixBreakError } from '../../src/core/errors.ts';
import type { PlacedImage } from '../../src/core/message.ts';
import { rulesOf } from '../images/vlm-client.ts';
import { paintedStore } from '../images/painted-store.ts';

const PAD = 8;
const { store, images: painted } = await paintedStore(3, 64, 64);
const placed = (index: number, offset: number, length: number): PlacedImage => ({ ...painted[index]!, offset, length });

describe('CompactPrompt', () => {
  it('holds one placeholder for every image, however the prompt grew', () => {
    const text = fc.array(fc.integer({ min: 10, max: 99 }), { minLength: 1, maxLength: 4 });
    const turn = fc.array(fc.oneof(text, fc.integer({ min: 1, max: 5 })), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), (turns) => {
        const compact = new CompactPrompt();
        const ids: number[] = [];
        const images: PlacedImage[] = [];
        const expected: number[] = [];
        for (const pieces of turns) {
          for (const piece of pieces) {
            if (typeof piece !== 'number') {
              ids.push(...piece);
              expected.push(...piece);
              continue;
            }
            images.push(placed(0, ids.length, piece));
            ids.push(...Array.from({ length: piece }, () => PAD));
            expected.push(PAD);
          }
          compact.extendTo(Int32Array.from(ids), [...images]);
          expect(compact.digits).toBe(expected.join(','));
        }
      }),
    );
  });

  it('begins again with a prompt that was cut', () => {
    const compact = new CompactPrompt();
    compact.extendTo(Int32Array.of(1, PAD, PAD, 2, 3), [placed(0, 1, 2)]);
    compact.extendTo(Int32Array.of(PAD, PAD, 2), [placed(0, 0, 2)]);
    expect(compact.digits).toBe(`${PAD},2`);
  });
});

describe('contentParts', () => {
  it('names every image by its digest and sends the bytes of those that the server does not have, also where one is there twice', async () => {
    const sent = new SentImages();
    sent.add([placed(1, 0, 1)]);
    const parts = (await contentParts([placed(0, 0, 1), placed(1, 1, 1), placed(0, 2, 1)], { sent, store })) as {
      url: string | null;
      uuid: string;
    }[];
    expect(parts.map(({ uuid }) => uuid)).toEqual([painted[0]!.sha256, painted[1]!.sha256, painted[0]!.sha256]);
    const base64 = Buffer.from(await store.get(painted[0]!)).toString('base64');
    expect(parts.map(({ url }) => url)).toEqual([`data:image/png;base64,${base64}`, null, `data:image/png;base64,${base64}`]);
  });

  it('rejects an image where the client has no store', async () => {
    await expect(contentParts([placed(0, 0, 1)], { sent: new SentImages(), store: null })).rejects.toThrow(ConfigError);
  });
});

describe('generationBody', () => {
  it('is the JSON of the route: sampling inside, salt and model outside, ids last', () => {
    const compact = new CompactPrompt();
    compact.extendTo(Int32Array.of(1, PAD, PAD), [placed(0, 1, 2)]);
    const completion = {
      model: 'ignored',
      max_tokens: 4,
      temperature: 1,
      logprobs: 0,
      return_token_ids: true,
      return_tokens_as_token_ids: false,
      cache_salt: 'v1',
      seed: 7,
    };
    const body: unknown = JSON.parse(generationBody(generationFields(completion, { version: 1, model: 'adapter' }), [{ uuid: 'a' }], compact));
    expect(body).toEqual({
      model: 'adapter',
      return_token_ids: true,
      cache_salt: 'v1',
      output_mode: 'text',
      sampling_params: { max_tokens: 4, temperature: 1, logprobs: 0, seed: 7, skip_special_tokens: true },
      content_parts: [{ uuid: 'a' }],
      token_ids: [1, PAD],
    });
  });
});

describe('readGeneration', () => {
  const prompt = Int32Array.of(1, PAD, PAD, 2);
  const images = [placed(0, 1, 2)];
  const answer = (changes: object = {}) => ({
    prompt_token_ids: [...prompt],
    mm_placeholders: { image: [{ offset: 1, length: 2 }] },
    choices: [{ text: 'a', token_ids: [5], logprobs: { content: [{ token: 'a', logprob: -0.5 }] }, finish_reason: 'stop', stop_reason: 9 }],
    usage: { prompt_tokens: 4, completion_tokens: 1 },
    ...changes,
  });
  const read = (value: object) => {
    const prompted = new PromptBytes();
    prompted.extendTo(prompt, false);
    const context = { prompt, prompted, maxNewTokens: 4, vocabularySize: 100, stop: [], where: 'SERVER' };
    return readGeneration(Buffer.from(JSON.stringify(value)), images, context);
  };

  it('gives the sample', () => {
    const { text, ids, logProbs, finish, stopReason, usage } = read(answer());
    expect({ text, ids: [...ids], logProbs: [...logProbs], finish, stopReason }).toEqual({
      text: 'a',
      ids: [5],
      logProbs: [-0.5],
      finish: 'stop',
      stopReason: 9,
    });
    expect(usage).toEqual({ promptTokens: 4, completionTokens: 1, cachedTokens: null });
  });

  it.each<readonly [string, object, RegExp]>([
    ['no place', { mm_placeholders: null }, /placed images at no place, but they were meant to be at 1 \(2 tokens\)/],
    ['fewer places', { mm_placeholders: { image: [] } }, /at no place/],
    [
      'more places',
      {
        mm_placeholders: {
          image: [
            { offset: 1, length: 2 },
            { offset: 3, length: 1 },
          ],
        },
      },
      /at 1 \(2 tokens\), 3 \(1 tokens\)/,
    ],
    ['another length', { mm_placeholders: { image: [{ offset: 1, length: 3 }] } }, /at 1 \(3 tokens\)/],
    ['another offset', { mm_placeholders: { image: [{ offset: 0, length: 2 }] } }, /at 0 \(2 tokens\)/],
    ['another pad', { prompt_token_ids: [1, PAD, 3, 2] }, /token 2 of 4 is 3 instead of 8/],
    ['a token less', { prompt_token_ids: [1, PAD, PAD] }, /token 3 of 4 is missing instead of 2/],
    ['a token more', { prompt_token_ids: [1, PAD, PAD, 2, 2] }, /token 4 of 4 is 2 instead of the end/],
    ['no tokens', { prompt_token_ids: null }, /did not return the tokens of the prompt/],
  ])('throws PrefixBreakError for an answer of 200 with %s', (_, changes, message) => {
    expect(() => read(answer(changes))).toThrow(PrefixBreakError);
    expect(() => read(answer(changes))).toThrow(message);
  });

  it('throws PolicyError for tokens that cannot have been sampled', () => {
    const [choice] = answer().choices;
    expect(() => read(answer({ choices: [{ ...choice, token_ids: [5, 6] }] }))).toThrow(/1 log-probs and 1 strings for 2 sampled tokens/);
    expect(() => read(answer({ choices: [{ ...choice, token_ids: [500] }] }))).toThrow(/vocabulary has only 100/);
  });
});

describe('assertFewImages', () => {
  it('throws for one more than the limit, and takes any number where the limit is unknown', () => {
    const rules = { ...rulesOf('qwen3_vl'), maxPerPrompt: 1 };
    const two = [placed(0, 0, 1), placed(1, 1, 1)];
    expect(() => assertFewImages(two, rules)).toThrow(/holds 2 images, but the server takes at most 1\. .*--limit-mm-per-prompt '\{"image": 2\}'/);
    expect(() => assertFewImages(two.slice(1), rules)).not.toThrow();
    expect(() => assertFewImages(two, { ...rules, maxPerPrompt: null })).not.toThrow();
  });
});

describe('isCacheMiss', () => {
  it('is true for the answer 400 that names one, and for no other', () => {
    const message = 'Cache miss for image at index 0 but data is not provided.';
    expect(isCacheMiss(new PolicyError(message, { status: 400 }))).toBe(true);
    expect(isCacheMiss(new PolicyError(message, { status: 500 }))).toBe(false);
    expect(isCacheMiss(new PolicyError('Bad request', { status: 400 }))).toBe(false);
    expect(isCacheMiss(new Error(message))).toBe(false);
  });
});
