/**
 * Pictures through a real vLLM, with random models: Qwen3-VL, and Qwen2.5-VL too where VF_VLLM_ALL_FORMS is 1. A server of its own, because the one of the other
 * tests reads text.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GenerateRequest, TokenLease } from '../../src/clients/policy-client.ts';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { PolicyError, PrefixBreakError, PromptTooLongError } from '../../src/core/errors.ts';
import type { ImageRef, Message } from '../../src/core/message.ts';
import { imageServerContract } from '../contracts/image-server.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { openVlm, rulesOf, type VlmForm, vlmPictures, vlmTraits } from '../images/vlm-client.ts';
import { type Fault, loraProxy } from '../loopback/lora-proxy.ts';
import { EvaluationFolder, type RecordedRollout } from './evaluation-process.ts';
import { picturedTraining } from './pictured-training.ts';
import { judgePictured, serveVisionModel, type VisionModel } from './vision-models.ts';

const GALLERY = join(import.meta.dirname, '../images/gallery.ts');
const FORMS: readonly VlmForm[] = process.env['VF_VLLM_ALL_FORMS'] === '1' ? ['qwen3_vl', 'qwen2_5_vl'] : ['qwen3_vl'];
/** Ordinary tokens alone: a vision token would end an episode early. */
const WORDS = ['-S', JSON.stringify({ allowed_token_ids: Array.from({ length: 1200 }, (_, i) => i + 256) })];
const { signal } = new AbortController();
const sampling = { temperature: 1, topP: 1 };

/** One server a form, started when the first test needs it. */
const served = new Map<VlmForm, Promise<VisionModel>>();
const serve = (form: VlmForm) => {
  if (!served.has(form)) served.set(form, serveVisionModel(form));
  return served.get(form)!;
};
afterAll(async () => {
  for (const model of served.values()) await (await model)[Symbol.asyncDispose]();
});

for (const form of FORMS) {
  const pictures = await vlmPictures(form);
  const url = async () => (await serve(form)).url;
  imageServerContract(`real vLLM of the form ${form}`, form, url);
  picturedTraining(form, serve);
  policyClientContract(`real vLLM of the form ${form}`, async () => openVlm(await url(), form, pictures), vlmTraits(form, pictures));
}

describe.each(FORMS)('a real vLLM of the form %s', (form) => {
  const { unit, start, pad, end } = rulesOf(form);
  let model: VisionModel;
  const folder = new EvaluationFolder();
  beforeAll(async () => {
    model = await serve(form);
  });
  afterAll(() => folder[Symbol.dispose]());

  it('is probed: the route, the unit, the bounds, the limit, the ids', async () => {
    const probe = await probePolicy({ baseUrl: model.url, model: form, signal, images: true });
    expect(probe).toMatchObject({ kind: 'tokens', images: true, blindBecause: null, imageTokens: rulesOf(form) });
  });

  describe('vf-eval over an environment that shows pictures', () => {
    const evaluate = async (name: string, ...args: readonly string[]) =>
      folder.evaluate({ url: model.url, model: name }, GALLERY, '-r', '2', '-t', '16', ...args);
    const judged = (rollouts: readonly RecordedRollout[], directory: string, adapter: string | null = null) =>
      judgePictured(rollouts, { model: model.folder, adapter, images: join(directory, 'images') });

    it('plays episodes of several turns whose prompts extend each other, and exports log-probs equal to those of transformers', async () => {
      const { summary, rollouts } = await evaluate(form, ...WORDS);
      expect(summary).toMatchObject({ rollouts: { finished: 4, errored: 0 }, errors: {}, prefix_breaks: 0 });
      for (const { images = [], token_ids: ids, loss_mask: mask } of rollouts) {
        expect(images).toHaveLength(3);
        for (const { offset, length } of images) {
          expect([ids[offset - 1], ids[offset + length]]).toEqual([start, end]);
          expect(ids.slice(offset, offset + length).every((id) => id === pad)).toBe(true);
          expect(mask.slice(offset, offset + length).every((bit) => bit === 0)).toBe(true);
        }
        expect(ids.filter((id) => id === pad)).toHaveLength(images.reduce((sum, { length }) => sum + length, 0));
      }
      const { tokens, error, blind } = await judged(rollouts, summary.directory);
      expect(tokens).toBeGreaterThan(100);
      expect(error).toBeLessThan(1e-4);
      // Without the pictures the log-probs are others: they were seen.
      expect(blind).toBeGreaterThan(0.1);
    });

    it('does so through a LoRA adapter, which changes the log-probs', { tags: 'long' }, async () => {
      const adapter = model.adapter('adapter');
      // A server that runs on may have one of an earlier run.
      const name = `random-adapter-${process.pid}`;
      const loaded = await fetch(`${model.url}/load_lora_adapter`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ lora_name: name, lora_path: adapter }),
      });
      expect(loaded.status).toBe(200);
      const { summary, rollouts } = await evaluate(name, ...WORDS);
      expect(summary).toMatchObject({ rollouts: { finished: 4, errored: 0 }, prefix_breaks: 0 });
      const { error, base } = await judged(rollouts, summary.directory, adapter);
      expect(error).toBeLessThan(1e-4);
      expect(base).toBeGreaterThan(0.1);
    });

    it('ends an episode in which the policy writes a vision token, keeps the token with mask 1, and still gives a reward', async () => {
      const { summary, rollouts } = await evaluate(form, '-S', JSON.stringify({ allowed_token_ids: [start] }));
      expect(summary).toMatchObject({ stop_conditions: { vision_token_sampled: 4 }, rollouts: { finished: 4, errored: 0 } });
      for (const { token_ids: ids, loss_mask: mask, images } of rollouts) {
        expect(images).toHaveLength(1);
        expect([ids.at(-1), mask.at(-1)]).toEqual([start, 1]);
      }
    });
  });

  describe('a client', () => {
    type Opened = Awaited<ReturnType<typeof opened>>;
    /** A client whose requests pass a proxy that notes and may change them. */
    const opened = async (fault: Fault = () => false) => {
      const pictures = await vlmPictures(form);
      const sent: { path: string; body: string }[] = [];
      const proxy = await loraProxy(model.url, ({ path, body, pass }, response) => {
        sent.push({ path, body });
        return fault({ path, body, pass }, response);
      });
      const { client } = await openVlm(`${proxy.url}/v1`, form, pictures, { maxRetries: 0 });
      return {
        ...pictures,
        client,
        sent,
        async [Symbol.asyncDispose]() {
          await client.close();
          await proxy[Symbol.asyncDispose]();
        },
      };
    };
    const showing = (...images: readonly ImageRef[]): Message => ({ role: 'user', content: images.map((image) => ({ type: 'image', image })) });
    const sample = async (lease: TokenLease, messages: readonly Message[], more: Partial<GenerateRequest<Int32Array>> = {}) => {
      const { ids, images } = await lease.render(messages);
      return lease.generate({ prompt: ids, images, sampling, maxNewTokens: 4, stop: [], signal, ...more });
    };
    const uploads = ({ sent }: Opened) =>
      sent.filter(({ path }) => path === '/inference/v1/generate').map(({ body }) => body.split('data:image/png').length - 1);

    it('sends each picture once, and again after the server has forgotten it', async () => {
      await using world = await opened();
      const [first, second] = world.images as readonly [ImageRef, ImageRef];
      await using one = await world.client.lease(signal);
      await sample(one, [showing(first)]);
      await using two = await world.client.lease(signal);
      await sample(two, [showing(first, second, first)]);
      expect(uploads(world)).toEqual([1, 1]);
      expect((await fetch(`${model.url.replace(/\/v1$/, '')}/reset_mm_cache`, { method: 'POST' })).status).toBe(200);
      await using three = await world.client.lease(signal);
      await sample(three, [showing(second, first)]);
      // The request without bytes is refused, and the second one has all of them.
      expect(uploads(world)).toEqual([1, 1, 0, 2]);
    });

    it('shows the same picture twice in a prompt, also the first time', async () => {
      await using world = await opened();
      const third = world.images[2]!;
      await using one = await world.client.lease(signal);
      const { images } = await one.render([showing(third, third)]);
      expect(images.map(({ sha256 }) => sha256)).toEqual([third.sha256, third.sha256]);
      const [first, second] = [await sample(one, [showing(third, third)]), await sample(one, [showing(third, third)])];
      expect([first.ids.length, second.ids.length]).toEqual([4, 4]);
      expect(uploads(world)).toEqual([2, 0]);
    });

    it('sends text without pictures over the route of completions', async () => {
      await using world = await opened();
      await using lease = await world.client.lease(signal);
      await sample(lease, [{ role: 'user', content: 'Hello' }]);
      // The tokenizer asks by a completion whether an id is a control token.
      const generations = world.sent.filter(({ path, body }) => /generate|completions/.test(path) && !body.includes('allowed_token_ids'));
      expect(generations.map(({ path }) => path)).toEqual(['/v1/completions']);
    });

    it('throws PrefixBreakError where the server answers 200 but saw fewer pictures', async () => {
      const statuses: number[] = [];
      await using world = await opened(async ({ path, body }, response) => {
        if (path !== '/inference/v1/generate') return false;
        const fields = JSON.parse(body) as { content_parts: unknown[] };
        const answer = await fetch(`${model.url.replace(/\/v1$/, '')}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ ...fields, content_parts: fields.content_parts.slice(0, -1) }),
        });
        statuses.push(answer.status);
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
        return true;
      });
      await using lease = await world.client.lease(signal);
      await expect(sample(lease, [showing(...world.images.slice(0, 2))])).rejects.toThrow(PrefixBreakError);
      expect(statuses).toEqual([200]);
    });

    it('throws PrefixBreakError where the server answers 200 but saw a picture of another size', async () => {
      await using world = await opened();
      const odd = await world.store.put(await world.store.get(world.images[0]!), { mediaType: 'image/png', width: 6 * unit, height: 5 * unit });
      await using lease = await world.client.lease(signal);
      const asked = sample(lease, [showing(odd)]);
      await expect(asked).rejects.toThrow(PrefixBreakError);
      await expect(asked).rejects.toThrow(/placed images at \d+ \(12 tokens\), but they were meant to be at \d+ \(30 tokens\)/);
    });

    it('names the limit for 17 pictures of 16, before they are sent', async () => {
      await using world = await opened();
      await using lease = await world.client.lease(signal);
      await expect(sample(lease, [showing(...world.images.slice(0, 17))])).rejects.toThrow(
        /holds 17 images, but the server takes at most 16.*--limit-mm-per-prompt/,
      );
      expect(uploads(world)).toEqual([]);
    });

    it('says that a torn picture cannot be decoded', async () => {
      await using world = await opened();
      const whole = await world.store.get(world.images[0]!);
      const torn = await world.store.put(whole.subarray(0, 20), { mediaType: 'image/png', width: 4 * unit, height: 3 * unit });
      await using lease = await world.client.lease(signal);
      const refused = sample(lease, [showing(torn)]);
      await expect(refused).rejects.toThrow(PolicyError);
      await expect(refused).rejects.toThrow(/cannot decode an image/);
    });

    it('rejects a prompt that fills the window with PromptTooLongError', async () => {
      await using world = await opened();
      await using lease = await world.client.lease(signal);
      const long: Message = {
        role: 'user',
        content: [
          { type: 'image', image: world.images[0]! },
          { type: 'text', text: 'a '.repeat(4200) },
        ],
      };
      await expect(sample(lease, [long])).rejects.toThrow(PromptTooLongError);
    });
  });
});
