import { getEventListeners } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError } from '../../../../src/core/errors.ts';
import { EmbeddedEngine } from '../../../../src/engine/embedded-engine.ts';
import { EmbeddedBackend } from '../../../../src/trainer/gradients/embedded/embedded-backend.ts';
import type { ForwardOptions, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import { nanoRequest } from '../../../engine/nano-requests.ts';
import { distance, readAdapter, readGradient, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { ALL_TARGETS, NANO_BASE, writeRandomAdapter } from './nano-adapter.ts';
import { type NanoOptions, openNano } from './nano-backend.ts';

const signal = new AbortController().signal;
const KEPT: ForwardOptions = { retain: true, adapter: 'on', signal };
const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
const PLAIN = nanoRequest();
const REQUEST = { ...PLAIN, maxTokens: 30, stop: { ...PLAIN.stop, ignoreEnd: true } };
const batch = smallBatch(1600);
const dLogProbs = someGradient(batch.targets.length);

let root: string;
let folders = 0;
const newFolder = () => join(root, `new-${++folders}`);
let backend: EmbeddedBackend | undefined;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'vf-embedded-'));
});
afterEach(async () => {
  await backend?.close();
  backend = undefined;
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return await call.then(
    () => expect.fail('Expected a rejection, the call resolved'),
    (error: unknown) => error as Error,
  );
}

async function accumulate(of: PackedBatch, gradient: Float32Array): Promise<void> {
  await backend!.backward((await backend!.forward(of, KEPT)).batchId, { dLogProbs: gradient });
}

async function train(steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) {
    await accumulate(batch, someGradient(batch.targets.length, step));
    await backend!.optimStep(ADAM);
  }
}

/** One sequence of this many tokens, with the last one as its target. */
function longBatch(tokens: number): PackedBatch {
  return { ids: new Int32Array(tokens).fill(5), offsets: Int32Array.of(0, tokens), targets: Int32Array.of(tokens - 1), temperature: 1 };
}

describe('EmbeddedBackend.start', () => {
  const start = (options: NanoOptions) => failureOf(openNano(options));
  const folder = (name: string) => {
    mkdirSync(join(root, name), { recursive: true });
    return join(root, name);
  };
  const torn = () => {
    cpSync(NANO_BASE, folder('torn'), { recursive: true });
    writeFileSync(join(root, 'torn', 'model.safetensors'), readFileSync(join(NANO_BASE, 'model.safetensors')).subarray(0, 1e6));
    return join(root, 'torn');
  };
  const adapterOf = (targets: readonly string[]) => writeRandomAdapter({ directory: newFolder(), rank: 3, alpha: 12, seed: 1, targets });
  const broken = () => {
    const directory = adapterOf(ALL_TARGETS);
    const weights = readFileSync(join(directory, 'adapter_model.safetensors'));
    weights.writeFloatLE(NaN, weights.length - 4);
    writeFileSync(join(directory, 'adapter_model.safetensors'), weights);
    return directory;
  };

  it.each<[string, RegExp, () => NanoOptions]>([
    ['a model that is not there', /nowhere/, () => ({ options: { modelPath: join(root, 'nowhere') } })],
    ['a directory that is not a model', /config\.json/, () => ({ options: { modelPath: folder('empty') } })],
    ['weights cut short', /torn/, () => ({ options: { modelPath: torn() } })],
    [
      'a target that the base does not have',
      /lora\.targets must be among .*q_proj.*, got qkv_proj/,
      () => ({ adapter: { targets: ['q_proj', 'qkv_proj'] } }),
    ],
    ['no target', /lora\.targets must be among .*, got none/, () => ({ adapter: { targets: [] } })],
    ['rank 0', /rank of an adapter.*, got 0/, () => ({ adapter: { rank: 0 } })],
    ['a rank that no server takes', /rank of an adapter.* from 1 to 512, got 513/, () => ({ adapter: { rank: 513 } })],
    ['an initial adapter that is not there', /nowhere/, () => ({ adapter: { initial: join(root, 'nowhere') } })],
    [
      'an initial adapter of another rank',
      /The adapter in .* has rank 3, but this trainer has 4\. Set lora\.rank to 3, or give another adapter/,
      () => ({ adapter: { rank: 4, initial: adapterOf(ALL_TARGETS) } }),
    ],
    [
      'an initial adapter of another alpha',
      /has alpha 12, but this trainer has 13\. Set lora\.alpha to 12/,
      () => ({ adapter: { alpha: 13, initial: adapterOf(ALL_TARGETS) } }),
    ],
    [
      'an initial adapter of other targets',
      /has targets \["q_proj"\], but this trainer has \["k_proj","q_proj"\]\. Set lora\.targets to \["q_proj"\]/,
      () => ({ adapter: { targets: ['q_proj', 'k_proj'], initial: adapterOf(['q_proj']) } }),
    ],
    ['an initial adapter with NaN', /not finite: NaN/, () => ({ adapter: { initial: broken() } })],
    ['more memory than there is', /cannot hold the activations of two tokens/, () => ({ options: { memoryBytes: 1000 } })],
  ])('refuses %s in one line', async (_, text, options) => {
    const error = await start(options());
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(text);
    expect(error.message).not.toContain('\n');
  });

  it('closes the engine that it was given to own, when it cannot be started', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 1, cacheTokens: 0, signal });
    const adapter = { rank: 3, alpha: 12, targets: ['lm_head'], seed: 1, initial: null };
    expect(await failureOf(EmbeddedBackend.on(engine, { adapter, signal, ownsEngine: true }))).toBeInstanceOf(ConfigError);
    expect(await failureOf(engine.loadAdapter({ name: 'a', directory: root, signal }))).toBeInstanceOf(CancelledError);
  });

  it('is cancelled by its signal, before and during', async () => {
    expect(await start({ options: { signal: AbortSignal.abort() } })).toBeInstanceOf(CancelledError);
    const controller = new AbortController();
    const starting = start({ options: { signal: controller.signal } });
    controller.abort();
    expect(await starting).toBeInstanceOf(CancelledError);
  });
});

describe('EmbeddedBackend', { timeout: 60_000 }, () => {
  it('shares an engine with a sampler, hands everything back, and leaves the engine to its owner', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 2, signal });
    const { memoryBytes } = engine.stats();
    const adapter = { rank: 3, alpha: 12, targets: ALL_TARGETS, seed: 1, initial: null };
    backend = await EmbeddedBackend.on(engine, { adapter, signal });
    await train(1);
    await backend.close();
    expect(engine.stats().memoryBytes).toBe(memoryBytes);
    backend = await EmbeddedBackend.on(engine, { adapter, signal });
    await train(1);
    const calls = [backend.forward(longBatch(1500), KEPT), backend.zeroGrad()].map(failureOf);
    await engine.close();
    for (const error of [...(await Promise.all(calls)), await failureOf(backend.forward(batch, KEPT))]) expect(error).toMatchObject({ code: 'lost' });
  });

  it('samples and trains with the same numbers: the log-probs of a sampled sequence are those of training, to the bit', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 2, signal });
    backend = await EmbeddedBackend.on(engine, {
      adapter: { rank: 3, alpha: 12, targets: ALL_TARGETS, seed: 1, initial: null },
      signal,
      ownsEngine: true,
    });
    await train(2);
    const { directory } = await backend.saveAdapter(newFolder());
    await engine.loadAdapter({ name: 'trained', directory, signal });
    const prompt = Int32Array.from({ length: 21 }, (_, i) => (i * 37 + 5) % 1500);
    const { ids, logProbs } = await engine.generate({ ...REQUEST, prompt, adapter: 'trained' });
    expect(ids).toHaveLength(30);
    const whole = Int32Array.from([...prompt, ...ids]);
    const targets = Int32Array.from({ length: 30 }, (_, i) => prompt.length + i);
    const trained = await backend.forward(
      { ids: whole, offsets: Int32Array.of(0, whole.length), targets, temperature: 1 },
      { ...KEPT, retain: false },
    );
    expect([...trained.logProbs]).toEqual([...logProbs]);
  });

  it('trains while the engine samples, and neither changes a bit of the other', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 2, signal });
    backend = await EmbeddedBackend.on(engine, {
      adapter: { rank: 3, alpha: 12, targets: ALL_TARGETS, seed: 1, initial: null },
      signal,
      ownsEngine: true,
    });
    const state = newFolder();
    await backend.saveState(state);
    const sample = () =>
      Promise.all(
        Array.from({ length: 12 }, async (_, i) => {
          const prompt = Int32Array.from({ length: 20 + i }, (__, j) => (j * 37 + i) % 1500);
          const { ids, logProbs } = await engine.generate({ ...REQUEST, prompt, sampling: { ...REQUEST.sampling, seed: i } });
          return { ids: [...ids], logProbs: [...logProbs] };
        }),
      );
    const trained = async () => {
      await train(4);
      return readAdapter((await backend!.saveAdapter(newFolder())).directory);
    };
    const [sampledAlone, trainedAlone] = [await sample(), await trained()];
    await backend.loadState(state);
    const [sampled, both] = await Promise.all([sample(), trained()]);
    expect(sampled).toEqual(sampledAlone);
    expect(both).toEqual(trainedAlone);
  });

  it('saves and loads its state while another backend trains on the same engine, and both get the numbers that they get alone', async () => {
    const adapter = (seed: number) => ({ rank: 3 + seed, alpha: 12, targets: ALL_TARGETS, seed, initial: null });
    const trained = async (one: EmbeddedBackend, phase: number) => {
      const { batchId } = await one.forward(batch, KEPT);
      await one.backward(batchId, { dLogProbs: someGradient(batch.targets.length, phase) });
      return one.optimStep(ADAM);
    };
    /** Three steps, with a state saved after the first and loaded after the second. */
    const back = async (one: EmbeddedBackend) => {
      const state = newFolder();
      const norms = [await trained(one, 0)];
      await one.saveState(state);
      norms.push(await trained(one, 1));
      const { directory } = await one.saveAdapter(newFolder());
      await one.loadState(state);
      norms.push(await trained(one, 2));
      const end = (await one.saveAdapter(newFolder())).directory;
      return { norms, adapters: [directory, end].map(readAdapter) };
    };
    const alone: Awaited<ReturnType<typeof back>>[] = [];
    for (const seed of [1, 2]) {
      backend = await openNano({ adapter: adapter(seed) });
      alone.push(await back(backend));
      await backend.close();
    }
    const engine = await EmbeddedEngine.open({ modelPath: NANO_BASE, threads: 2, signal });
    const { memoryBytes } = engine.stats();
    const both = await Promise.all([1, 2].map((seed) => EmbeddedBackend.on(engine, { adapter: adapter(seed), signal })));
    expect(await Promise.all(both.map(back))).toEqual(alone);
    await both[0]!.close();
    expect(await trained(both[1]!, 3)).toMatchObject({ step: 3 });
    await both[1]!.close();
    expect(engine.stats().memoryBytes).toBe(memoryBytes);
    await engine.close();
  });

  it('closes twice, ends what is running, and is lost from then on', async () => {
    backend = await openNano();
    const running = failureOf(backend.forward(longBatch(2000), KEPT));
    await Promise.all([backend.close(), backend.close()]);
    expect(await running).toMatchObject({ name: 'GradientError', code: 'lost' });
    expect(await failureOf(backend.zeroGrad())).toMatchObject({ code: 'lost', message: expect.stringContaining('closed') });
    expect(await failureOf(backend.saveState(newFolder()))).toMatchObject({ code: 'lost' });
  });

  it('runs out of memory before anything changes: the gradient stays as it was, and a smaller batch fits', async () => {
    backend = await openNano({ options: { memoryBytes: 8 * 2 ** 20 } });
    await accumulate(batch, dLogProbs);
    const error = await failureOf(backend.forward(longBatch(1000), KEPT));
    expect(error).toMatchObject({ code: 'out_of_memory', message: expect.stringMatching(/Pass fewer tokens at once/) });
    expect(backend.capabilities.maxTokens).toBeLessThan(1000);
    const kept = await readGradient(backend, newFolder);
    await backend.close();
    backend = await openNano();
    await accumulate(batch, dLogProbs);
    expect(distance(kept, await readGradient(backend, newFolder))).toBe(0);
  });

  it('reports an adapter that has grown beyond all bounds, and continues from a loaded state', async () => {
    backend = await openNano();
    const state = newFolder();
    await backend.saveState(state);
    await accumulate(batch, dLogProbs);
    await backend.optimStep({ ...ADAM, learningRate: 1e38 });
    expect(await failureOf(backend.forward(batch, KEPT))).toMatchObject({ code: 'not_finite', message: expect.stringMatching(/adapter/) });
    await backend.loadState(state);
    await accumulate(batch, dLogProbs);
    expect(await backend.optimStep(ADAM)).toMatchObject({ step: 1, skipped: false });
  });

  it('lets go of a signal once it has answered', async () => {
    backend = await openNano();
    const controller = new AbortController();
    await backend.forward(batch, { ...KEPT, signal: controller.signal });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('drops what was abandoned', async () => {
    backend = await openNano();
    const controller = new AbortController();
    const abandoned = failureOf(backend.forward(batch, { ...KEPT, signal: controller.signal }));
    controller.abort();
    expect(await abandoned).toBeInstanceOf(CancelledError);
    const { batchId } = await backend.forward(batch, KEPT);
    for (const id of ['batch-1', 'batch-2', 'batch-3'].filter((each) => each !== batchId)) {
      expect(await failureOf(backend.drop(id))).toMatchObject({ code: 'bad_input' });
    }
    await backend.drop(batchId);
  });

  it('refuses a sequence longer than the model supports, and an entropy gradient without entropies', async () => {
    backend = await openNano();
    expect(await failureOf(backend.forward(longBatch(2049), KEPT))).toMatchObject({
      code: 'bad_input',
      message: expect.stringMatching(/2,049 tokens.*limit is 2,048/),
    });
    const { batchId } = await backend.forward(batch, KEPT);
    expect(await failureOf(backend.backward(batchId, { dLogProbs, dEntropy: dLogProbs }))).toMatchObject({ code: 'bad_input' });
    expect(await failureOf(backend.forward(batch, { ...KEPT, adapter: 'off' }))).toMatchObject({ code: 'bad_input' });
  });

  it('makes A from the seed and the path alone, within the bounds of PEFT', async () => {
    const saved = async (adapter: NanoOptions['adapter']) => {
      backend = await openNano({ adapter: adapter ?? {} });
      const tensors = readAdapter((await backend.saveAdapter(newFolder())).directory);
      await backend.close();
      return tensors;
    };
    const name = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight';
    const few = await saved({ targets: ['q_proj'] });
    expect((await saved({}))[name]).toEqual(few[name]);
    const other = await saved({ seed: 2 });
    expect(other[name]).not.toEqual(few[name]);
    const largest = Math.max(...other[name]!.map(Math.abs));
    expect(largest).toBeLessThanOrEqual(Math.fround(1 / Math.sqrt(128)));
    expect(largest).toBeGreaterThan(0.95 / Math.sqrt(128));
    expect(Math.max(...other[name.replace('lora_A', 'lora_B')]!)).toBe(0);
  });

  it('continues alike on another number of threads up to rounding, and says so when a state comes from one', async () => {
    backend = await openNano({ options: { threads: 1 } });
    await train(2);
    const state = newFolder();
    await backend.saveState(state);
    const expected = readAdapter((await backend.saveAdapter(newFolder())).directory);
    await backend.close();
    backend = await openNano({ options: { threads: 2 } });
    await train(2);
    expect(distance(readAdapter((await backend.saveAdapter(newFolder())).directory), expected)).toBeLessThan(1e-4);
    const { description } = backend.capabilities;
    await backend.loadState(state);
    expect(backend.capabilities.description).toBe(`${description}; not bit for bit as before: threads 1 when the state was saved, 2 now`);
    expect(readAdapter((await backend.saveAdapter(newFolder())).directory)).toEqual(expected);
    const own = newFolder();
    await backend.saveState(own);
    await backend.loadState(own);
    expect(backend.capabilities.description).toBe(description);
  });
});
