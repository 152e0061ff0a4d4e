import { describe, expect, it } from 'vitest';
import { probeImages } from '../../src/clients/vllm-image-probe.ts';
import { probePolicy, probeReplicas } from '../../src/clients/vllm-probe.ts';
import { VllmServer } from '../../src/clients/vllm-server.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { rulesOf, VLM_FORMS } from '../images/vlm-client.ts';
import { imageServer, type ImageServerOptions } from '../loopback/image-server.ts';
import { miscountingServer } from '../loopback/miscounting-server.ts';
import { loopback, sendJson } from '../transport/loopback.ts';

const { signal } = new AbortController();

async function probed(options: ImageServerOptions) {
  const { form = 'qwen3_vl', maxModelLen = 4096 } = options;
  await using server = await imageServer(options);
  const vllm = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0), maxRetries: 0 });
  try {
    return await probeImages(vllm, { model: form, maxModelLen, signal });
  } finally {
    await vllm.close();
  }
}

describe('probeImages', () => {
  it.each(VLM_FORMS)('finds unit, bounds, limit and ids of %s', async (form) => {
    expect(await probed({ form })).toEqual({ rules: rulesOf(form), because: null, takesImages: true });
  });

  // In tokens. The processors' own bounds are squares; those that users set need not be.
  it.each([
    [1, 2048],
    [3, 512],
    [64, 300],
    [100, 1280],
    [196, 260],
    [255, 513],
    [256, 512],
  ])('finds bounds of %i and %i tokens, where no square has as many', async (fewest, most) => {
    for (const form of VLM_FORMS) {
      const { unit } = rulesOf(form);
      const bounds = { minPixels: fewest * unit * unit, maxPixels: most * unit * unit };
      expect((await probed({ form, bounds })).rules).toEqual({ ...rulesOf(form), ...bounds });
    }
  });

  it('takes the largest image of the window where the server would take larger ones', async () => {
    const bounds = { minPixels: 4 * 1024, maxPixels: 2 ** 24 };
    expect((await probed({ bounds, maxModelLen: 1000 })).rules).toMatchObject({ maxPixels: 900 * 1024 });
  });

  it('knows no limit where the server has none', async () => {
    expect((await probed({ limit: null })).rules?.maxPerPrompt).toBeNull();
  });

  it('names the flag where the route is missing', async () => {
    const { rules, because, takesImages } = await probed({ hasRoute: false });
    expect([rules, takesImages]).toEqual([null, true]);
    expect(because).toMatch(/^has no route \/inference\/v1\/generate: start vLLM 0\.32 or later with --enable-scale-out/);
  });

  it('says that a text model takes no images', async () => {
    const { rules, because, takesImages } = await probed({ sees: false });
    expect([rules, takesImages]).toEqual([null, false]);
    expect(because).toMatch(/^takes no images \(.*not a multimodal model/);
  });

  // 1920: the largest square whose tokens fill nine tenths of the window.
  it.each([
    [32, 4, [4, 1024]],
    [32, 0, null],
    [1920, 2, null],
    [1920, 0, null],
  ])('finds no bounds where a square of %i pixels has %i tokens, which no image has', async (side, pads, bounds) => {
    await using server = await miscountingServer({ side, pads });
    const vllm = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0), maxRetries: 0 });
    const { rules, because, takesImages } = await probeImages(vllm, { model: 'qwen3_vl', maxModelLen: 4096, signal });
    await vllm.close();
    expect(rules === null ? null : [rules.minPixels / 1024, rules.maxPixels / 1024]).toEqual(bounds);
    expect([because, takesImages]).toEqual([bounds === null ? 'reports token counts that fit no image' : null, true]);
  });

  it('names the models that it supports where an image has tokens of another kind', async () => {
    await using server = await loopback((_, response) =>
      sendJson(response, 200, { tokens: [1, 5, ...Array.from({ length: 576 }, () => 6), 7], max_model_len: 4096 }),
    );
    const vllm = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0), maxRetries: 0 });
    const { rules, because } = await probeImages(vllm, { model: 'llava', maxModelLen: 4096, signal });
    await vllm.close();
    expect(rules).toBeNull();
    expect(because).toMatch(/Qwen2\.5-VL and Qwen3-VL/);
  });
});

describe('probePolicy', () => {
  it('asks for images only where an environment shows some', async () => {
    await using server = await imageServer();
    const text = await probePolicy({ baseUrl: server.url, model: null, signal });
    expect([text.images, text.imageTokens]).toEqual([undefined, undefined]);
    expect(server.generations).toEqual([]);
    const seeing = await probePolicy({ baseUrl: server.url, model: null, signal, images: true });
    expect(seeing).toMatchObject({ images: true, imageTokens: rulesOf('qwen3_vl'), blindBecause: null, chatsWithImages: true });
  });
});

describe('probeReplicas', () => {
  const { unit } = rulesOf('qwen3_vl');
  it.each<readonly [string, ImageServerOptions, RegExp]>([
    [
      'bounds of pixels',
      { bounds: { minPixels: 4 * unit * unit, maxPixels: 512 * unit * unit } },
      /imageTokens is \{.*"maxPixels":1048576.*\} at .*"maxPixels":524288/,
    ],
    ['limits', { limit: 8 }, /imageTokens is .*"maxPerPrompt":16.*"maxPerPrompt":8/],
    ['flags', { hasRoute: false }, /imageTokens is \{.* at .*, but null at/],
  ])('refuses servers that differ in their %s of images', async (_, options, message) => {
    await using one = await imageServer();
    await using other = await imageServer(options);
    const asked = probeReplicas({ baseUrls: [one.url, other.url], model: null, signal, images: true });
    await expect(asked).rejects.toThrow(ConfigError);
    await expect(asked).rejects.toThrow(message);
  });

  it('takes servers that see images alike', async () => {
    await using one = await imageServer();
    await using other = await imageServer();
    const probe = await probeReplicas({ baseUrls: [one.url, other.url], model: null, signal, images: true });
    expect(probe.imageTokens).toEqual(rulesOf('qwen3_vl'));
  });
});
