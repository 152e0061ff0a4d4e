import { execFileSync } from 'node:child_process';
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
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, GradientError } from '../../../../src/core/errors.ts';
import type { ForwardOptions, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import type { AdapterOptions } from '../../../../src/trainer/gradients/adapter-options.ts';
import { TorchBackend } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import { WorkerProcess } from '../../../../src/trainer/gradients/torch/worker-process.ts';
import { distance, readAdapter, readGradient, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { isRunning } from './is-running.ts';
import { type NanoOptions, nanoOptions, openNano } from './nano-backend.ts';
import { forkedPython, NANO_BASE, skipReason, torchPython } from './torch-python.ts';

const signal = new AbortController().signal;
const KEPT: ForwardOptions = { retain: true, adapter: 'on', signal };
const WORKER = join(import.meta.dirname, '../../../../src/trainer/gradients/torch/worker.py');
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
  /** Shared, because torch takes seconds to import: it is as at its start before each test. Batches of more tokens than these run out of memory for real. */
  let shared: TorchBackend;
  let start: string;
  let backend: TorchBackend | undefined;
  beforeAll(async () => {
    shared = await openNano({ options: { env: { VF_TORCH_MEMORY_LIMIT_TOKENS: '40,30' } } });
    start = newFolder();
    await shared.saveState(start);
  }, 300_000);
  beforeEach(() => shared.loadState(start));
  afterAll(() => shared?.close());
  afterEach(async () => {
    await backend?.close();
    backend = undefined;
  });

  /** Of `batch` at the start, with what `then` adds. */
  async function gradientOf(of: TorchBackend, then: () => Promise<void> = async () => {}) {
    await of.loadState(start);
    await accumulate(of, batch, dLogProbs);
    await then();
    return await readGradient(of, newFolder);
  }

  describe('start', () => {
    it('names the remedy where torch is missing', async () => {
      // -S and -I hide every installed package.
      const error = await failureOf(openNano({ options: { python: script('bare', `exec ${torchPython.path} -I -S "$@"`) } }));
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toMatch(/No module named 'torch'.*pip install torch transformers safetensors/);
    });

    it('refuses a model that is not there in one line, and leaves no process behind', async () => {
      const log = join(root, 'refused.log');
      const python = script('noted', `echo "pid $$" >&2; exec ${forkedPython()} "$@"`);
      const error = await failureOf(openNano({ options: { modelPath: join(root, 'nowhere'), python, logPath: log } }));
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.message).toMatch(/^[^\n]*does not exist: .*nowhere[^\n]*$/);
      expect(isRunning(Number(/^pid (\d+)$/m.exec(readFileSync(log, 'utf8'))![1]))).toBe(false);
    });
  });

  describe('a worker that is started with what it cannot take', () => {
    let worker: WorkerProcess;
    /** The answer to one call of a start, which may come again in the same worker. */
    const answer = async (name: string, fields: Readonly<Record<string, unknown>>) => (await worker.call(name, fields)).header;
    const load = (path: string) => answer('load_base', { path, gradient_checkpointing: false, sharding: 'auto' });
    const adapt = (adapter: Partial<AdapterOptions>) => answer('create_adapter', { ...nanoOptions({ adapter }).adapter });
    beforeAll(async () => {
      const { python, env, timeoutMs, devices } = nanoOptions({});
      worker = new WorkerProcess({ python, script: WORKER, env: env!, logPath: null, timeoutMs, devices, worldSize: 1 });
      await answer('hello', { protocol: 1, device: 'cpu', dtype: 'auto', threads: 1 });
    }, 300_000);
    afterAll(() => worker?.close());

    /** The text of a refusal; empty for any other answer, and for a text of several lines. */
    function refusal(header: Readonly<Record<string, unknown>>): string {
      const { ok, code, text } = header as { ok: boolean; code?: string; text?: string };
      return !ok && code === 'bad_input' && text?.includes('\n') === false ? text : '';
    }

    it.each<[string, RegExp, () => string]>([
      ['a model that is not there', /does not exist: .*nowhere/, () => join(root, 'nowhere')],
      ['a directory that is not a model', /No config\.json/, () => folder('empty')],
      ['pickled weights', /pytorch_model\.bin.*pickle/, () => pickled()],
      ['weights cut short', /as a causal language model/, () => torn()],
    ])('refuses %s in one line', async (_, text, path) => {
      expect(refusal(await load(path()))).toMatch(text);
    });

    it('refuses an adapter that the base cannot have, or that is not there', async () => {
      await load(NANO_BASE);
      expect(refusal(await adapt({ targets: ['q_proj', 'qkv_proj'] }))).toMatch(/lora\.targets names qkv_proj.* choose from .*q_proj/);
      await load(NANO_BASE);
      expect(refusal(await adapt({ initial: join(root, 'nowhere') }))).toMatch(/adapter_model\.safetensors/);
    });

    it('refuses an initial adapter with other matrices, or with numbers that are not finite', async () => {
      const targets = ['q_proj'];
      await load(NANO_BASE);
      expect(await adapt({ targets })).toMatchObject({ ok: true });
      const good = join(root, 'good');
      expect(await answer('save_adapter', { directory: good, base_name: 'nano-base' })).toMatchObject({ ok: true });
      await load(NANO_BASE);
      expect(refusal(await adapt({ targets, initial: good, rank: 4 }))).toMatch(/q_proj\.lora_A\.weight to be \[4, 128\], got \[3, 128\]/);
      const broken = join(root, 'broken');
      cpSync(good, broken, { recursive: true });
      const weights = readFileSync(join(good, 'adapter_model.safetensors'));
      weights.writeFloatLE(NaN, weights.length - 4);
      writeFileSync(join(broken, 'adapter_model.safetensors'), weights);
      await load(NANO_BASE);
      expect(refusal(await adapt({ targets, initial: broken }))).toMatch(/finite/);
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

  it('rejects running, waiting and later calls as lost when the worker is killed', { tags: 'long' }, async () => {
    const logPath = join(root, 'worker.log');
    backend = await openNano({ options: { logPath, python: torchPython.path! } });
    const calls = [backend.forward(longBatch(2048), KEPT), backend.forward(batch, KEPT), backend.zeroGrad()].map(failureOf);
    process.kill(backend.pid, 'SIGKILL');
    for (const error of [...(await Promise.all(calls)), await failureOf(backend.zeroGrad())]) {
      expect(error).toMatchObject({ name: 'GradientError', code: 'lost', message: expect.stringContaining('was killed (SIGKILL)') });
    }
    expect(await backend.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(existsSync(logPath)).toBe(true);
  });

  it('survives Ctrl-C, and runs out of memory for real: the gradient stays as it was, and a smaller batch fits', async () => {
    const expected = await gradientOf(shared);
    process.kill(shared.pid, 'SIGINT');
    const kept = await gradientOf(shared, async () => {
      expect(await failureOf(shared.forward(longBatch(41), KEPT))).toMatchObject({ code: 'out_of_memory' });
      const { batchId } = await shared.forward(longBatch(31), KEPT);
      const error = await failureOf(shared.backward(batchId, { dLogProbs: Float32Array.of(1) }));
      expect(error).toBeInstanceOf(GradientError);
      expect(error).toMatchObject({ code: 'out_of_memory' });
      expect(await failureOf(shared.drop(batchId))).toMatchObject({ code: 'bad_input' });
      expect((await shared.stats()).retainedBatches).toBe(0);
    });
    expect(distance(kept, expected)).toBe(0);
  });

  it(
    'gives the same gradient with gradient checkpointing, drops what was abandoned, closes twice, and is lost from then on',
    { tags: 'long' },
    async () => {
      backend = await openNano({ options: { gradientCheckpointing: true } });
      const gradients = [];
      for (const each of [shared, backend]) {
        const controller = new AbortController();
        const abandoned = failureOf(each.forward(batch, { ...KEPT, signal: controller.signal }));
        controller.abort();
        expect(await abandoned).toBeInstanceOf(CancelledError);
        gradients.push(await gradientOf(each));
        expect((await each.stats()).retainedBatches).toBe(0);
      }
      expect(distance(gradients[0]!, gradients[1]!)).toBeLessThan(1e-6);
      await Promise.all([backend.close(), backend.close()]);
      expect(await backend.exited).toEqual({ code: 0, signal: null });
      expect(await failureOf(backend.zeroGrad())).toMatchObject({ code: 'lost', message: expect.stringContaining('closed') });
    },
  );

  it('gives memory back between two passes without losing the gradient so far', async () => {
    const twice = (release: boolean) =>
      gradientOf(shared, async () => {
        if (release) await shared.releaseMemory();
        await accumulate(shared, batch, dLogProbs);
      });
    expect(distance(await twice(false), await twice(true))).toBe(0);
  });

  it('makes A from the seed and the path alone, and says so when a state comes from another number of threads', { tags: 'long' }, async () => {
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

  it('leaves nothing behind where a directory cannot be written', async () => {
    const file = join(root, 'a-file');
    writeFileSync(file, '');
    const listed = readdirSync(root);
    expect(await failureOf(shared.saveState(join(file, 'state')))).toMatchObject({ code: 'internal' });
    expect(await failureOf(shared.saveAdapter(`/proc/vf-search/adapter`))).toMatchObject({ code: 'internal' });
    expect(readdirSync(root)).toEqual(listed);
    expect((await shared.forward(batch, KEPT)).logProbs).toHaveLength(batch.targets.length);
  });
});
