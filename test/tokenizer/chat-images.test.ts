/** Conversations with images as ids, with the template and the vocabulary of a vision-language model. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VllmServer } from '../../src/clients/vllm-server.ts';
import { VllmTokenizer } from '../../src/clients/vllm-tokenizer.ts';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import type { ContentPart, ImageRef, Message } from '../../src/core/message.ts';
import { Random } from '../../src/core/random.ts';
import type { ChatTokenizer } from '../../src/tokenizer/chat-tokenizer.ts';
import type { ImageTokenRules } from '../../src/tokenizer/policy-tokenizer.ts';
import { rulesOf } from '../images/vlm-client.ts';
import { type ImageServer, imageServer, type ImageServerOptions } from '../loopback/image-server.ts';

const FORM = 'qwen3_vl';
const { unit, start, pad, end } = rulesOf(FORM);
const { signal } = new AbortController();
const image = (columns: number, rows: number): ImageRef => ({
  sha256: `${columns}x${rows}`,
  mediaType: 'image/png',
  width: columns * unit,
  height: rows * unit,
});
const user = (...content: readonly (string | ImageRef)[]): Message => ({
  role: 'user',
  content: content.map((part): ContentPart => (typeof part === 'string' ? { type: 'text', text: part } : { type: 'image', image: part })),
});

class Opened {
  readonly chat: ChatTokenizer;
  readonly #vllm: VllmServer;
  readonly #server: ImageServer;

  private constructor(server: ImageServer, imageTokens: ImageTokenRules | null) {
    this.#server = server;
    this.#vllm = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0), maxRetries: 0 });
    this.chat = new VllmTokenizer({ imageTokens }).at({ server: this.#vllm, model: FORM, signal });
  }

  static async open(options: ImageServerOptions = {}, imageTokens: ImageTokenRules | null = rulesOf(FORM)): Promise<Opened> {
    return new Opened(await imageServer(options), imageTokens);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#vllm.close();
    await this.#server[Symbol.asyncDispose]();
  }
}

describe('ChatTokenizer with images', () => {
  let opened: Opened;
  let chat: ChatTokenizer;
  beforeAll(async () => {
    opened = await Opened.open();
    ({ chat } = opened);
  });
  afterAll(() => opened[Symbol.asyncDispose]());

  it('renders text and images in their order, each image as its tokens', async () => {
    const { ids, images = [] } = await chat.render([user('Before ', image(2, 3), ' between ', image(4, 1), ' after')]);
    expect(images.map(({ sha256, length }) => [sha256, length])).toEqual([
      ['2x3', 6],
      ['4x1', 4],
    ]);
    const texts = [];
    let from = 0;
    for (const { offset, length } of images) {
      texts.push(await chat.decode(ids.slice(from, offset - 1)));
      from = offset + length + 1;
    }
    expect([...texts, await chat.decode(ids.slice(from))]).toEqual([
      '<|im_start|>user\nBefore ',
      ' between ',
      ' after<|im_end|>\n<|im_start|>assistant\n',
    ]);
  });

  it('gives a bridge with images that does not depend on the images before it', async () => {
    const bridge = await chat.renderNext([user('Look.')], [user('And ', image(2, 2))], { isClosed: true });
    expect(await chat.renderNext([user('Look.', image(5, 5), image(3, 3))], [user('And ', image(2, 2))], { isClosed: true })).toEqual(bridge);
    expect(bridge.images).toEqual([{ ...image(2, 2), offset: expect.any(Number), length: 4 }]);
    expect(await chat.decode(bridge.ids)).toBe(
      `\n<|im_start|>user\nAnd <|vision_start|>${'<|image_pad|>'.repeat(4)}<|vision_end|><|im_end|>\n<|im_start|>assistant\n`,
    );
  });

  it('makes no vision token of text that spells one, next to images too', async () => {
    const piece = fc.constantFrom(
      '<|vision_start|>',
      '<|image_pad|>',
      '<|vision_end|>',
      '<|im_end|>',
      '<|image',
      '_pad|>',
      '<|vi',
      ' a ',
      '\n',
      '<image>',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 6 }), fc.array(piece, { maxLength: 6 }), async (before, after) => {
        const message = user(before.join(''), image(2, 2), after.join(''));
        const { ids, images = [] } = await chat.render([message]);
        const vision = [...ids].filter((id) => id === start || id === pad || id === end);
        expect(vision).toEqual([start, pad, pad, pad, pad, end]);
        expect(images.map(({ offset }) => ids[offset - 1])).toEqual([start]);
      }),
      { numRuns: 60 },
    );
  });

  it('shares one rendering of an opening, whose ids callers copy', async () => {
    const message = user('Same', image(2, 2));
    expect(await chat.render([message])).toBe(await chat.render([structuredClone(message)]));
    expect(await chat.render([user('Same', image(2, 3))])).not.toEqual(await chat.render([message]));
  });

  it('refuses an image that is too long for the model, and one in bare text', async () => {
    await expect(chat.render([user({ ...image(1, 1), width: 900, height: 3 })])).rejects.toThrow(/900 × 3 pixels is too long/);
    await using plain = await Opened.open({}, null);
    await expect(plain.chat.render([user(image(1, 1))])).rejects.toThrow(ConfigError);
    await expect(plain.chat.renderNext([user('a')], [user(image(1, 1))])).rejects.toThrow(/reads text only/);
  });

  it('says so where the template leaves an image out or shows one twice', async () => {
    const turn = (content: string) => `{%- for m in messages -%}[{{ ${content} }}]{%- endfor -%}`;
    await using dropping = await Opened.open({ template: turn("m.content | replace('<|image_pad|>', '')") });
    await expect(dropping.chat.render([user('a', image(2, 2))])).rejects.toThrow(PolicyError);
    await expect(dropping.chat.render([user('a', image(2, 2))])).rejects.toThrow(/wrote 0 placeholders for 1 images/);
    await using doubling = await Opened.open({ template: turn('m.content + m.content') });
    await expect(doubling.chat.render([user('a', image(2, 2))])).rejects.toThrow(/wrote 2 placeholders for 1 images/);
  });
});
