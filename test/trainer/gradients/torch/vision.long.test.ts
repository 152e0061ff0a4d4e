/**
 * The torch worker over vision-language bases: which it takes, where it finds images, what it keeps of them. Its numbers: vision.contract.test.ts.
 * @module-tag long
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, GradientError } from '../../../../src/core/errors.ts';
import type { ForwardOptions, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import type { TorchBackend } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import { distance, largestDifference, picturedBatch, readAdapter, readGradient, someGradient } from '../../../contracts/gradient-cases.ts';
import { openVlm } from './nano-backend.ts';
import { noisePng, randomVlm, type RandomVlm } from './random-vlm.ts';
import { forkedPython, skipReason, torchPython } from './torch-python.ts';

const signal = new AbortController().signal;
const ON: ForwardOptions = { retain: false, adapter: 'on', signal };
const KEPT: ForwardOptions = { ...ON, retain: true };
const VOCABULARY = 1600;
/** Side of a token's square of Qwen3-VL, in pixels. */
const UNIT = 32;
const WORKER = join(import.meta.dirname, '../../../../src/trainer/gradients/torch');

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return await call.then(
    () => expect.fail('Expected a rejection, the call resolved'),
    (error: unknown) => error as Error,
  );
}

describe.skipIf(torchPython.path === null)(`TorchBackend over a vision-language base${skipReason}`, { timeout: 300_000 }, () => {
  let root: string;
  let folders = 0;
  const newFolder = () => join(root, `new-${++folders}`);
  let vlm: RandomVlm;
  let backend: TorchBackend;
  let batch: PackedBatch;
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'vf-vision-'));
    vlm = await randomVlm('qwen3_vl');
    batch = picturedBatch(VOCABULARY, vlm.tested);
    backend = await openVlm(vlm);
  }, 300_000);
  afterAll(async () => {
    await backend?.close();
    vlm?.[Symbol.dispose]();
    rmSync(root, { recursive: true, force: true });
  });

  /** The base with other files; `edit` changes its config.json. */
  function changed(edit: (config: Record<string, unknown>) => void, removed?: string): string {
    const model = newFolder();
    cpSync(vlm.model, model, { recursive: true });
    const path = join(model, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    edit(config);
    writeFileSync(path, JSON.stringify(config));
    if (removed !== undefined) rmSync(join(model, removed));
    return model;
  }

  /** A batch that shows one image, whose file the folder of images may have, in so many tokens. */
  function showing(sha256: string, length = 6): PackedBatch {
    const image = { sha256, length, sequence: 0, offset: 1 };
    const ids = Int32Array.of(3, ...new Int32Array(length).fill(vlm.tested.pad), 5, 7);
    return { ids, offsets: Int32Array.of(0, ids.length), targets: Int32Array.of(length + 1, length + 2), temperature: 1, images: [image] };
  }

  /** Writes a file into the folder of images; gives the digest of its bytes. */
  function stored(bytes: Uint8Array, extension = 'png'): string {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(join(vlm.folder, `${sha256}.${extension}`), bytes);
    return sha256;
  }

  async function refused(sha256: string, length?: number): Promise<string> {
    const error = await failureOf(backend.forward(showing(sha256, length), ON));
    expect(error).toBeInstanceOf(GradientError);
    expect(error).toMatchObject({ code: 'bad_input' });
    expect(error.message).not.toContain('\n');
    return error.message;
  }

  /** Runs with a backend of its own. */
  async function beside<T>(options: Parameters<typeof openVlm>[1], act: (other: TorchBackend) => Promise<T>): Promise<T> {
    const other = await openVlm(vlm, options);
    try {
      return await act(other);
    } finally {
      await other.close();
    }
  }

  /** Log-probs and gradient of a batch. */
  async function passed(of: TorchBackend, what: PackedBatch) {
    const { batchId, logProbs } = await of.forward(what, KEPT);
    await of.backward(batchId, { dLogProbs: someGradient(what.targets.length) });
    return { logProbs, gradient: await readGradient(of, newFolder) };
  }

  describe('its adapter', () => {
    it('adapts the language model alone, under the names of the whole model', async () => {
      const { modules } = backend.adapter;
      expect(modules).toHaveLength(14);
      expect(modules.every(({ path }) => /^model\.language_model\.layers\.[01]\.(self_attn|mlp)\.[a-z]+_proj$/.test(path))).toBe(true);
      const { directory } = await backend.saveAdapter(newFolder());
      expect(Object.keys(readAdapter(directory))).toContain('base_model.model.model.language_model.layers.1.mlp.down_proj.lora_B.weight');
      const { exclude_modules: excluded } = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8')) as { exclude_modules: string };
      const isExcluded = (path: string) => new RegExp(`^(?:${excluded})$`).test(path);
      expect(isExcluded('model.visual.blocks.0.mlp.gate_proj')).toBe(true);
      expect(modules.some(({ path }) => isExcluded(path))).toBe(false);
    });

    it('is refused as the start of a run under the names of a text model', { tags: 'long' }, async () => {
      const { directory } = await backend.saveAdapter(newFolder());
      const path = join(directory, 'adapter_model.safetensors');
      const bytes = readFileSync(path);
      const end = 8 + Number(bytes.readBigUInt64LE(0));
      const header = bytes
        .toString('utf8', 8, end)
        .replaceAll('model.model.language_model.', 'model.model.')
        .padEnd(end - 8);
      writeFileSync(path, Buffer.concat([bytes.subarray(0, 8), Buffer.from(header), bytes.subarray(end)]));
      const error = await failureOf(openVlm(vlm, { adapter: { initial: directory } }));
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toMatch(/Tensors do not match .*language_model\.layers\.0.* is missing \(56 differ\)/);
    });
  });

  describe('its images', () => {
    it('change every log-prob behind them and none before', async () => {
      const [first, ...rest] = batch.images!;
      const white = stored(await plainPng(3, 2, 'white'));
      const [seen, other] = await Promise.all(
        [batch, { ...batch, images: [{ ...first!, sha256: white }, ...rest] }].map((of) => backend.forward(of, ON)),
      );
      const changes = Array.from(seen!.logProbs, (logProb, i) => Math.abs(logProb - other!.logProbs[i]!));
      const isBehind = (target: number) => target > first!.offset && target < batch.offsets[1]!;
      const [behind, before] = [true, false].map((wanted) => changes.filter((_, i) => isBehind(batch.targets[i]!) === wanted)) as [
        number[],
        number[],
      ];
      expect(Math.min(...behind)).toBeGreaterThan(0.01);
      expect(before).toEqual(before.map(() => 0));
      expect([behind.length, before.length]).toEqual([2, 5]);
    });

    it('go through the tower once each, and again where its memory is small, with the same bits', async () => {
      const state = newFolder();
      await backend.saveState(state);
      const before = (await backend.stats()).towerPasses;
      const expected = [await passed(backend, batch), await passed(backend, batch)];
      expect((await backend.stats()).towerPasses - before).toBeLessThanOrEqual(3);
      await backend.loadState(state);
      await beside({ options: { images: { folder: vlm.folder, cacheBytes: 20_000 } } }, async (narrow) => {
        expect([await passed(narrow, batch), await passed(narrow, batch)]).toEqual(expected);
        const { towerPasses } = await narrow.stats();
        expect(towerPasses).toBeGreaterThan(3);
        expect(towerPasses).toBeLessThan(8);
      });
    });

    it('are seen as vLLM shows them: turned by their orientation tag, white where they are transparent', async () => {
      const [width, height] = [3 * UNIT, 2 * UNIT];
      const noise = await noisePng(width, height, 9);
      const turned = await sharp(noise).withMetadata({ orientation: 6 }).png().toBuffer();
      const upright = await sharp(noise).rotate(90).png().toBuffer();
      const clear = await sharp(noise).ensureAlpha(0).png().toBuffer();
      const clearPalette = await sharp({ create: { width, height, channels: 4, background: '#00000000' } })
        .png({ palette: true })
        .toBuffer();
      const white = await plainPng(3, 2, 'white');
      const [a, b, c, d, e] = await Promise.all(
        [turned, upright, clear, clearPalette, white].map(async (bytes) => (await backend.forward(showing(stored(bytes)), ON)).logProbs),
      );
      expect(a).toEqual(b);
      expect([c, d]).toEqual([e, e]);
      expect(largestDifference(b!, e!)).toBeGreaterThan(0.01);
    });

    it.each(['png', 'jpg', 'webp'] as const)('may be a file .%s', async (extension) => {
      const bytes = await sharp(await noisePng(3 * UNIT, 2 * UNIT, 5))
        .toFormat(extension === 'jpg' ? 'jpeg' : extension)
        .toBuffer();
      expect((await backend.forward(showing(stored(bytes, extension)), ON)).logProbs).toHaveLength(2);
    });

    it('are refused in one line where they are missing, changed, torn, of another size or no pictures, and the worker keeps working', async () => {
      const before = await backend.forward(batch, ON);
      const noise = await noisePng(3 * UNIT, 2 * UNIT, 6);
      const missing = createHash('sha256').update('never stored').digest('hex');
      expect(await refused(missing)).toMatch(`The image ${missing} is missing: no file of that name`);
      const altered = stored(noise);
      writeFileSync(join(vlm.folder, `${altered}.png`), Buffer.concat([noise, Buffer.of(0)]));
      expect(await refused(altered)).toMatch(/was changed: its bytes have another SHA-256/);
      writeFileSync(join(vlm.folder, `${altered}.png`), noise.subarray(0, 500));
      expect(await refused(altered)).toMatch(/was changed/);
      expect(await refused(stored(noise.subarray(0, 900)))).toMatch(/cannot be decoded: .*truncated/);
      expect(await refused(stored(new Uint8Array(0)))).toMatch(/is not a PNG, JPEG or WebP picture/);
      expect(await refused(stored(Buffer.from('<html><img src="file:///etc/passwd"></html>')))).toMatch(/is not a PNG, JPEG or WebP picture/);
      expect(await refused(stored(await plainPng(2, 2, 'red')))).toMatch(
        /has 64 x 64 pixels, but 6 places were given to it, each for 32 x 32 pixels/,
      );
      expect(await refused(stored(await noisePng(100, 64, 1)), 6)).toMatch(/has 100 x 64 pixels/);
      expect(await refused(stored(await plainPng(300, 300, 'red')), 6)).toMatch(/has 9600 x 9600 pixels, but 6 places/);
      expect(await backend.forward(batch, ON)).toMatchObject({ logProbs: before.logProbs });
      const { sha256 } = batch.images![0]!;
      expect(await refused(sha256, 7)).toMatch(/has 6 tokens, but 7 places were given to it/);
    });

    it('are regular files of the folder: no link out of it, no folder, no pipe', async () => {
      const noise = await noisePng(3 * UNIT, 2 * UNIT, 7);
      const sha256 = createHash('sha256').update(noise).digest('hex');
      const [outside, path] = [newFolder(), join(vlm.folder, `${sha256}.png`)];
      writeFileSync(outside, noise);
      symlinkSync(outside, path);
      expect(await refused(sha256)).toMatch(/cannot be read: .*regular files/);
      rmSync(path);
      mkdirSync(path);
      expect(await refused(sha256)).toMatch(/is not a regular file/);
      rmSync(path, { recursive: true });
      execFileSync('mkfifo', [path]);
      expect(await refused(sha256)).toMatch(/is not a regular file/);
    });
  });

  it('divides pictures between processes that share the base, and one that lacks a picture stops all of them', { tags: 'long' }, async () => {
    const state = newFolder();
    await backend.saveState(state);
    const alone = await passed(backend, batch);
    await backend.loadState(state);
    await beside({ options: { devices: ['cpu', 'cpu'], sharding: 'full' } }, async (two) => {
      const found = await passed(two, batch);
      expect(largestDifference(found.logProbs, alone.logProbs)).toBeLessThan(5e-5);
      expect(distance(found.gradient, alone.gradient)).toBeLessThan(1e-5);
      const missing = createHash('sha256').update('never stored').digest('hex');
      for (const i of [0, 3]) {
        const lacking = { ...batch, images: batch.images!.map((image, k) => (k === i ? { ...image, sha256: missing } : image)) };
        expect((await failureOf(two.forward(lacking, KEPT))).message).toMatch(/Rank [01]: The image .* is missing/);
      }
      expect((await two.forward(batch, ON)).logProbs).toHaveLength(batch.targets.length);
    });
  });

  describe('its start', () => {
    let found: { readonly refused: readonly string[]; readonly different: readonly number[]; readonly unseen: string };
    beforeAll(async () => {
      using older = await randomVlm('qwen2_5_vl');
      const foreign = changed((config) => (config['model_type'] = 'llava'));
      const lacking = changed(() => {}, 'preprocessor_config.json');
      const other = changed(() => {});
      cpSync(join(older.model, 'preprocessor_config.json'), join(other, 'preprocessor_config.json'));
      const input = JSON.stringify({ worker: WORKER, refused: [foreign, lacking, other], taken: [vlm.model, older.model] });
      const script = join(import.meta.dirname, 'vision-bases.py');
      found = JSON.parse(execFileSync(forkedPython(), [script], { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] })) as typeof found;
    }, 240_000);

    it('refuses another architecture with a tower in one line that names those it knows', () => {
      expect(found.refused[0]).toBe('The base has a vision tower of architecture llava; Qwen2.5-VL and Qwen3-VL are supported, and text-only bases');
    });

    it('refuses a base without the configuration of its image processor, or with that of another model', () => {
      expect(found.refused[1]).toMatch(/^No preprocessor_config\.json in .*how the model sees pictures/);
      expect(found.refused[2]).toMatch(/has patches of 14 pixels merged by 2, but the model has 16 and 2/);
    });

    it('without the folder of images takes text alone', () => {
      expect(found.unseen).toBe("The batch holds images, but the worker was started without the run's folder of images");
    });

    it('gives tokens the positions that transformers gives them {any sequences, both forms}', () => {
      expect(found.different).toEqual([0, 0]);
    });
  });
});

function plainPng(columns: number, rows: number, background: string): Promise<Buffer> {
  return sharp({ create: { width: columns * UNIT, height: rows * UNIT, channels: 3, background } })
    .png()
    .toBuffer();
}
