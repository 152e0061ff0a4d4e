/** The part of the contract of a PolicyClient that is about pictures in its prompts. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { ChatLease, PolicyClient, PolicyLease, TextSample, TokenLease } from '../../src/clients/policy-client.ts';
import { ConfigError, PrefixBreakError } from '../../src/core/errors.ts';
import type { ImageRef, Message, PlacedImage } from '../../src/core/message.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { assertPlayable } from '../../src/rollouts/assert-playable.ts';
import type { PictureTraits } from './policy-client.ts';

const { signal } = new AbortController();
const greedy = { sampling: { temperature: 0, topP: 1 }, maxNewTokens: 6, stop: [], signal };

export function policyPictureContract(clientOf: () => PolicyClient, traits: PictureTraits): void {
  const [first, second, third] = traits.images as readonly [ImageRef, ImageRef, ImageRef];
  const unknown: ImageRef = { ...first, sha256: '0'.repeat(64) };

  describe('with pictures', () => {
    it('plays an environment that shows images', () => {
      expect(() => assertPlayable({ id: 'gallery', turnFormat: 'chat', needs: ['images'] }, clientOf())).not.toThrow();
    });

    it('answers to text and pictures', async () => {
      await using lease = await clientOf().lease(signal);
      const sample = await ask(lease, [showing(first, second)]);
      expect(sample.text).not.toBe('');
    });

    it.runIf(traits.areRead !== false)('rejects a picture whose bytes the store does not have, and says which', async () => {
      await using lease = await clientOf().lease(signal);
      const asked = ask(lease, [showing(unknown)]);
      await expect(asked).rejects.toThrow(ConfigError);
      await expect(asked).rejects.toThrow(unknown.sha256);
    });

    if (traits.rules !== null) picturedTokens(clientOf, traits, [first, second, third]);
  });
}

function picturedTokens(clientOf: () => PolicyClient, traits: PictureTraits, [first, second, third]: readonly [ImageRef, ImageRef, ImageRef]): void {
  const rules = traits.rules!;
  const leased = async () => (await clientOf().lease(signal)) as TokenLease;
  const expectPlaced = (ids: Int32Array, placed: readonly PlacedImage[], images: readonly ImageRef[]) => {
    expect(placed.map(({ sha256 }) => sha256)).toEqual(images.map(({ sha256 }) => sha256));
    for (const { offset, length } of placed) {
      expect(length).toBe(traits.tokens);
      expect([ids[offset - 1], ids[offset + length]]).toEqual([rules.start, rules.end]);
      expect(new Set(ids.subarray(offset, offset + length))).toEqual(new Set([rules.pad]));
    }
    expect(ids.filter((id) => id === rules.pad)).toHaveLength(images.length * traits.tokens);
  };

  it('renders every picture as its tokens and says where they are', async () => {
    await using lease = await leased();
    const { ids, images } = await lease.render([showing(first, second)]);
    expectPlaced(ids, images, [first, second]);
    expect(await lease.render([showing(first, second)])).toEqual({ ids, images });
  });

  it('says of text alone that it holds no picture, also where the text spells one', async () => {
    await using lease = await leased();
    const spelled = await lease.render([{ role: 'user', content: '<|vision_start|><|image_pad|><|vision_end|>' }]);
    expect(spelled.images).toEqual([]);
    expect([...spelled.ids].filter((id) => id === rules.pad || id === rules.start || id === rules.end)).toEqual([]);
  });

  it('renders pictures between two turns', async () => {
    await using lease = await leased();
    const { ids, images } = await lease.renderNext([showing(first)], [showing(second)]);
    expectPlaced(ids, images, [second]);
    expect(await lease.renderNext([showing(first)], [showing(second)])).toEqual({ ids, images });
  });

  describe('sampling', () => {
    let opening: { readonly ids: Int32Array; readonly images: readonly PlacedImage[] };
    beforeAll(async () => {
      await using lease = await leased();
      opening = await lease.render([showing(first)]);
    });

    it('sees the picture: the same one gives the same log-probs, another one others', async () => {
      await using lease = await leased();
      await using again = await leased();
      await using other = await leased();
      const [{ offset, length }] = opening.images as readonly [PlacedImage];
      const sample = await lease.generate({ ...greedy, prompt: opening.ids, images: opening.images });
      const same = await again.generate({ ...greedy, prompt: opening.ids, images: opening.images });
      const elsewhere = await other.generate({ ...greedy, prompt: opening.ids, images: [{ ...third, offset, length }] });
      expect(sample.usage.promptTokens).toBe(opening.ids.length);
      expect(same.ids).toEqual(sample.ids);
      for (const [i, logProb] of same.logProbs.entries()) expect(logProb).toBeCloseTo(sample.logProbs[i]!, 4);
      expect(Math.abs(elsewhere.logProbs[0]! - sample.logProbs[0]!)).toBeGreaterThan(1e-3);
    });

    it('plays several turns whose prompts extend each other token by token', async () => {
      await using lease = await leased();
      const buffer = new TokenBuffer();
      buffer.appendGiven('prompt', opening.ids, opening.images);
      let history: readonly Message[] = [showing(first)];
      for (const image of [second, third, first]) {
        const sample = await lease.generate({ ...greedy, prompt: buffer.ids, images: buffer.images });
        expect(sample.usage.promptTokens).toBe(buffer.length);
        buffer.commit(sample, sample.text.length, 0, { keepsEnd: true });
        const { ids, images } = await lease.renderNext(history, [showing(image)]);
        history = [...history, { role: 'assistant', content: sample.text }, showing(image)];
        buffer.appendGiven('observation', ids, images);
      }
      expect(buffer.images).toHaveLength(4);
      const last = await lease.generate({ ...greedy, prompt: buffer.ids, images: buffer.images });
      expect(last.usage.promptTokens).toBe(buffer.length);
      const { mask } = buffer;
      for (const { offset, length } of buffer.images) expect(mask.subarray(offset, offset + length).every((bit) => bit === 0)).toBe(true);
    });

    it('refuses a prompt that does not extend the last one, in its ids or its pictures', async () => {
      await using lease = await leased();
      await lease.generate({ ...greedy, prompt: opening.ids, images: opening.images, maxNewTokens: 1 });
      const other = opening.ids.slice();
      other[0] = other[0] === 1 ? 2 : 1;
      await expect(lease.generate({ ...greedy, prompt: other, images: opening.images })).rejects.toThrow(PrefixBreakError);
      const [placed] = opening.images as readonly [PlacedImage];
      const changed = [{ ...third, offset: placed.offset, length: placed.length }];
      await expect(lease.generate({ ...greedy, prompt: opening.ids, images: changed })).rejects.toThrow(PrefixBreakError);
    });
  });
}

function showing(...images: readonly ImageRef[]): Message {
  const parts = images.flatMap((image) => [
    { type: 'text' as const, text: 'Look: ' },
    { type: 'image' as const, image },
  ]);
  return { role: 'user', content: [...parts, { type: 'text', text: ' And?' }] };
}

async function ask(lease: PolicyLease, messages: readonly Message[]): Promise<TextSample> {
  if (lease.kind === 'chat') return (lease satisfies ChatLease).generate({ ...greedy, prompt: messages });
  const { ids, images } = await lease.render(messages);
  return lease.generate({ ...greedy, prompt: ids, images });
}
