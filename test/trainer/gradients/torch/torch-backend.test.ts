import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, GradientError } from '../../../../src/core/errors.ts';
import type { ForwardOptions, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import { TorchBackend } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import { distance, readAdapter, readGradient, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { isRunning } from './is-running.ts';
import { type NanoOptions, nanoOptions, openNano } from './nano-backend.ts';
import { NANO_BASE, skipReason, torchPython } from './torch-python.ts';

const signal = new AbortController().signal;
const KEPT: ForwardOptions = { retain: true, adapter: 'on', signal };
const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
const batch = smallBatch(1600);
const dLogProbs = someGradient(batch.targets.length);

let root: string;
let folders = 0;
const newFolder = () => join(root, `new-${++folders}`);
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'vf-torch-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return await call.then(
    () => expect.fail('Expected a rejection, the call resolved'),
    (error: unknown) => error as Error,
  );
}

/** An executable that takes the place of Python. */
function script(name: string, body: string): string {
  const path = join(root, name);
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** One sequence of this many tokens, with the last one as its target. */
function longBatch(tokens: number): PackedBatch {
  return { ids: new Int32Array(tokens).fill(5), offsets: Int32Array.of(0, tokens), targets: Int32Array.of(tokens - 1), temperature: 1 };
}

async function accumulate(backend: TorchBackend, of: PackedBatch, gradient: Float32Array): Promise<void> {
  await backend.backward((await backend.forward(of, KEPT)).batchId, { dLogProbs: gradient });
}

describe('TorchBackend.start without torch', () => {
  const start = (options: NanoOptions['options'] = {}) => failureOf(TorchBackend.start(nanoOptions({ options: { timeoutMs: 20_000, ...options } })));

  it('names the remedy where there is no Python', async () => {
    const error = await start({ python: join(root, 'no-python') });
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(/backend\.python.*no-python.*pip install torch transformers safetensors/);
  });

  it('says how a worker that answered nothing ended, and quotes its last words', async () => {
    const error = await start({ python: script('dying', 'echo first >&2; echo "Illegal instruction" >&2; exit 3') });
    expect(error).toMatchObject({ name: 'GradientError', code: 'lost' });
    expect(error.message).toMatch(/exited with code 3 during hello.*first \| Illegal instruction/);
  });

  it('quotes what is on stdout in place of frames, and ends the process', async () => {
    const error = await start({ python: script('chatty', 'echo "Welcome to the cluster"; exec sleep 60') });
    expect(error).toMatchObject({ code: 'lost', message: expect.stringContaining('"Welcome to the cluster\\n"') });
  });

  it('ends a worker that does not answer in time', async () => {
    const error = await start({ python: script('silent', 'exec sleep 60'), timeoutMs: 200 });
    expect(error).toMatchObject({ code: 'lost', message: expect.stringMatching(/answer hello within 0\.2 s.*backend\.timeout_s/) });
  });

  it('waits for a worker whose deadline is longer than a timer can be set', async () => {
    const error = await start({ python: script('late', 'head -c 12 >/dev/null; exit 3'), timeoutMs: 2 ** 31 });
    expect(error.message).toMatch(/exited with code 3 during hello/);
  });

  it('has the last words of a worker in its log, however busy this process is', async () => {
    const fifos = Array.from({ length: Number(process.env['UV_THREADPOOL_SIZE'] ?? 4) }, (_, i) => join(root, `fifo-${i}`));
    execFileSync('mkfifo', fifos);
    // Each holds one of the threads that write to files, until the other end is opened.
    const opening = fifos.map((fifo) => open(fifo, 'r'));
    const logPath = join(root, 'last-words.log');
    try {
      await start({ python: script('dying-on-file', 'echo first >&2; echo "Illegal instruction" >&2; exit 3'), logPath });
    } finally {
      for (const fifo of fifos) closeSync(openSync(fifo, 'w'));
      for (const file of await Promise.all(opening)) await file.close();
    }
    expect(readFileSync(logPath, 'utf8')).toBe('first\nIllegal instruction\n');
  });

  it('refuses a frame that answers none of its calls', async () => {
    // A header of 24 bytes, in octal.
    const frame = String.raw`printf 'VFG1\030\0\0\0\0\0\0\0{"id":9999, "arrays":[]}'; exec sleep 60`;
    expect(await start({ python: script('foreign', frame) })).toMatchObject({
      code: 'lost',
      message: expect.stringMatching(/9999.*call 1 \(hello\) is pending/),
    });
  });

  it('is cancelled by its signal, before and during', async () => {
    expect(await start({ signal: AbortSignal.abort() })).toBeInstanceOf(CancelledError);
    const controller = new AbortController();
    const starting = start({ python: script('waiting', 'exec sleep 60'), signal: controller.signal });
    controller.abort();
    expect(await starting).toBeInstanceOf(CancelledError);
  });

  it('refuses a log that cannot be written', async () => {
    expect(await start({ logPath: join(root, 'no', 'such', 'worker.log') })).toBeInstanceOf(ConfigError);
  });
});

describe.skipIf(torchPython.path === null)(`TorchBackend${skipReason}`, { timeout: 300_000 }, () => {
  let backend: TorchBackend | undefined;
  afterEach(async () => {
    await backend?.close();
    backend = undefined;
  });
  const start = async (options: NanoOptions) => failureOf(openNano(options));

  describe('start', () => {
    it('names the remedy where torch is missing', async () => {
      // -S and -I hide every installed package.
      const error = await start({ options: { python: script('bare', `exec ${torchPython.path} -I -S "$@"`) } });
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toMatch(/No module named 'torch'.*pip install torch transformers safetensors/);
    });

    it.each<[string, RegExp, () => NanoOptions]>([
      ['a model that is not there', /does not exist: .*nowhere/, () => ({ options: { modelPath: join(root, 'nowhere') } })],
      ['a directory that is not a model', /No config\.json/, () => ({ options: { modelPath: folder('empty') } })],
      ['pickled weights', /pytorch_model\.bin.*pickle/, () => ({ options: { modelPath: pickled() } })],
      ['weights cut short', /as a causal language model/, () => ({ options: { modelPath: torn() } })],
      [
        'a target that the base does not have',
        /lora\.targets names qkv_proj.* choose from .*q_proj/,
        () => ({ adapter: { targets: ['q_proj', 'qkv_proj'] } }),
      ],
      ['an initial adapter that is not there', /adapter_config\.json/, () => ({ adapter: { initial: join(root, 'nowhere') } })],
    ])('refuses %s in one line', async (_, text, options) => {
      const error = await start(options());
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toMatch(text);
      expect(error.message).not.toContain('\n');
    });

    function folder(name: string): string {
      mkdirSync(join(root, name), { recursive: true });
      return join(root, name);
    }
    function pickled(): string {
      cpSync(join(NANO_BASE, 'config.json'), join(folder('pickled'), 'config.json'));
      writeFileSync(join(root, 'pickled', 'pytorch_model.bin'), 'a pickle');
      return join(root, 'pickled');
    }
    function torn(): string {
      cpSync(NANO_BASE, folder('torn'), { recursive: true });
      writeFileSync(join(root, 'torn', 'model.safetensors'), readFileSync(join(NANO_BASE, 'model.safetensors')).subarray(0, 1e6));
      return join(root, 'torn');
    }
  });

  it('rejects running, waiting and later calls as lost when the worker is killed', async () => {
    const logPath = join(root, 'worker.log');
    backend = await openNano({ options: { logPath } });
    const calls = [backend.forward(longBatch(2048), KEPT), backend.forward(batch, KEPT), backend.zeroGrad()].map(failureOf);
    process.kill(backend.pid, 'SIGKILL');
    for (const error of [...(await Promise.all(calls)), await failureOf(backend.zeroGrad())]) {
      expect(error).toMatchObject({ name: 'GradientError', code: 'lost', message: expect.stringContaining('was killed (SIGKILL)') });
    }
    expect(await backend.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(existsSync(logPath)).toBe(true);
  });

  it('reports a worker that was killed while idle at the next call', async () => {
    backend = await openNano();
    process.kill(backend.pid, 'SIGKILL');
    await backend.exited;
    expect(await failureOf(backend.forward(batch, KEPT))).toMatchObject({ code: 'lost', message: expect.stringContaining('SIGKILL') });
  });

  it('closes twice, ends the process and is lost from then on', async () => {
    backend = await openNano();
    await Promise.all([backend.close(), backend.close()]);
    expect(await backend.exited).toEqual({ code: 0, signal: null });
    expect(await failureOf(backend.zeroGrad())).toMatchObject({ code: 'lost', message: expect.stringContaining('closed') });
  });

  it('survives Ctrl-C, and runs out of memory for real: the gradient stays as it was, and a smaller batch fits', async () => {
    backend = await openNano({ options: { env: { VF_TORCH_MEMORY_LIMIT_TOKENS: '40,30' } } });
    process.kill(backend.pid, 'SIGINT');
    await accumulate(backend, batch, dLogProbs);
    expect(await failureOf(backend.forward(longBatch(41), KEPT))).toMatchObject({ code: 'out_of_memory' });
    const { batchId } = await backend.forward(longBatch(31), KEPT);
    const error = await failureOf(backend.backward(batchId, { dLogProbs: Float32Array.of(1) }));
    expect(error).toBeInstanceOf(GradientError);
    expect(error).toMatchObject({ code: 'out_of_memory' });
    expect(await failureOf(backend.drop(batchId))).toMatchObject({ code: 'bad_input' });
    expect((await backend.stats()).retainedBatches).toBe(0);
    const kept = await readGradient(backend, newFolder);
    await backend.close();
    backend = await openNano();
    await accumulate(backend, batch, dLogProbs);
    expect(distance(kept, await readGradient(backend, newFolder))).toBe(0);
  });

  it('gives the same gradient with gradient checkpointing, and drops what was abandoned', async () => {
    const gradients = [];
    for (const gradientCheckpointing of [false, true]) {
      backend = await openNano({ options: { gradientCheckpointing } });
      const controller = new AbortController();
      const abandoned = failureOf(backend.forward(batch, { ...KEPT, signal: controller.signal }));
      controller.abort();
      expect(await abandoned).toBeInstanceOf(CancelledError);
      await accumulate(backend, batch, dLogProbs);
      expect((await backend.stats()).retainedBatches).toBe(0);
      gradients.push(await readGradient(backend, newFolder));
      await backend.close();
    }
    expect(distance(gradients[0]!, gradients[1]!)).toBeLessThan(1e-6);
  });

  it('gives memory back between two passes without losing the gradient so far', async () => {
    const gradients = [];
    for (const releases of [false, true]) {
      backend = await openNano();
      await accumulate(backend, batch, dLogProbs);
      if (releases) await backend.releaseMemory();
      await accumulate(backend, batch, dLogProbs);
      gradients.push(await readGradient(backend, newFolder));
      await backend.close();
    }
    expect(distance(gradients[0]!, gradients[1]!)).toBe(0);
  });

  it('makes A from the seed and the path alone, and says so when a state comes from another number of threads', async () => {
    const save = async (name: string) => readAdapter((await backend!.saveAdapter(join(root, name))).directory);
    backend = await openNano({ adapter: { targets: ['q_proj'] } });
    const few = await save('few');
    await accumulate(backend, batch, dLogProbs);
    await backend.optimStep(ADAM);
    await backend.saveState(join(root, 'one-thread'));
    const moved = await save('moved');
    expect(distance(moved, few)).toBeGreaterThan(0);
    await backend.close();
    backend = await openNano({ adapter: { targets: ['q_proj'], seed: 2 }, options: { threads: 2 } });
    const name = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight';
    const other = await save('other-seed');
    expect(other[name]).not.toEqual(few[name]);
    expect(Math.max(...other[name]!.map(Math.abs))).toBeLessThanOrEqual(1 / Math.sqrt(128));
    await backend.loadState(join(root, 'one-thread'));
    expect(await save('loaded')).toEqual(moved);
    expect(backend.capabilities.description).toContain('threads 1 when the state was saved, 2 now');
    await backend.close();
    backend = await openNano({ adapter: { targets: ['up_proj', 'q_proj'] } });
    expect((await save('more'))[name]).toEqual(few[name]);
    const refused = await failureOf(backend.loadState(join(root, 'one-thread')));
    expect(refused).toMatchObject({ code: 'bad_input', message: expect.stringContaining('has modules') });
  });

  it('refuses an initial adapter of another rank, alpha or targets, or with numbers that are not finite', async () => {
    backend = await openNano({ adapter: { targets: ['q_proj'] } });
    const good = (await backend.saveAdapter(join(root, 'good'))).directory;
    const targets = ['q_proj'];
    for (const [adapter, text, remedy] of [
      [{ rank: 4 }, 'has r 3, but this run needs 4', 'set lora.rank to 3'],
      [{ alpha: 13 }, 'has lora_alpha 12, but this run needs 13', 'set lora.alpha to 12'],
      [{ targets: ['k_proj', 'q_proj'] }, 'but this run needs ["k_proj", "q_proj"]', 'set lora.targets to these'],
    ] as const) {
      const error = await start({ adapter: { targets, initial: good, ...adapter } });
      expect(error).toMatchObject({ name: 'ConfigError', message: expect.stringContaining(text) });
      expect(error.message).toContain(remedy);
    }
    const broken = join(root, 'broken');
    cpSync(good, broken, { recursive: true });
    const weights = readFileSync(join(good, 'adapter_model.safetensors'));
    weights.writeFloatLE(NaN, weights.length - 4);
    writeFileSync(join(broken, 'adapter_model.safetensors'), weights);
    expect((await start({ adapter: { targets, initial: broken } })).message).toMatch(/finite/);
  });

  it('leaves nothing behind where a directory cannot be written', async () => {
    backend = await openNano();
    const file = join(root, 'a-file');
    writeFileSync(file, '');
    const listed = readdirSync(root);
    expect(await failureOf(backend.saveState(join(file, 'state')))).toMatchObject({ code: 'internal' });
    expect(await failureOf(backend.saveAdapter(`/proc/vf-search/adapter`))).toMatchObject({ code: 'internal' });
    expect(readdirSync(root)).toEqual(listed);
    expect((await backend.forward(batch, KEPT)).logProbs).toHaveLength(batch.targets.length);
  });

  it('ends when the trainer is killed', async () => {
    const trainer = spawn(process.execPath, ['--conditions=vf-search-source', join(import.meta.dirname, 'start-nano.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(trainer.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    expect(isRunning(pid)).toBe(true);
    trainer.kill('SIGKILL');
    await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
  });
});
