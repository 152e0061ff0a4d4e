/**
 * The torch worker in several processes: the numbers of one process, failures of one rank, lost ranks. The contract runs over it in torch-backend.contract.test.ts.
 * @module-tag long
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ForwardOptions, PackedBatch } from '../../../../src/trainer/gradient-backend.ts';
import { TorchBackend } from '../../../../src/trainer/gradients/torch/torch-backend.ts';
import { batches, distance, largestDifference, readAdapter, readGradient, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { isRunning } from './is-running.ts';
import { type NanoOptions, nanoOptions, openNano } from './nano-backend.ts';
import { NANO_BASE, skipReason, torchPython } from './torch-python.ts';

const signal = new AbortController().signal;
const KEPT: ForwardOptions = { retain: true, adapter: 'on', signal };
const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-3, weightDecay: 0.1, maxGradNorm: 0.5 };
const TWO = { devices: ['cpu', 'cpu'] } as const;
const VOCABULARY = 1600;
const batch = smallBatch(VOCABULARY);
const dLogProbs = someGradient(batch.targets.length);
const WORKER = join(import.meta.dirname, '../../../../src/trainer/gradients/torch/worker.py');

let root: string;
let folders = 0;
const newFolder = () => join(root, `new-${++folders}`);
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'vf-ranks-test-'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function failureOf(call: Promise<unknown>): Promise<Error> {
  return await call.then(
    () => expect.fail('Expected a rejection, the call resolved'),
    (error: unknown) => error as Error,
  );
}

/** Sequences of these lengths, each with its last token as target. */
function sequences(...lengths: readonly number[]): PackedBatch {
  const offsets = Int32Array.from([0, ...lengths.map((_, i) => lengths.slice(0, i + 1).reduce((sum, x) => sum + x, 0))]);
  return { ids: new Int32Array(offsets.at(-1)!).fill(5), offsets, targets: offsets.slice(1).map((end) => end - 1), temperature: 1 };
}

async function accumulate(backend: TorchBackend, of: PackedBatch, gradient: Float32Array): Promise<void> {
  await backend.backward((await backend.forward(of, KEPT)).batchId, { dLogProbs: gradient });
}

describe('TorchBackend of several processes without torch', () => {
  const start = (name: string, body: string, options: NanoOptions['options'] = {}) => {
    const python = join(root, name);
    writeFileSync(python, `#!/bin/sh\n${body}\n`);
    chmodSync(python, 0o755);
    return failureOf(TorchBackend.start(nanoOptions({ options: { ...TWO, timeoutMs: 20_000, python, ...options } })));
  };

  it('names the rank that ended, its code and its last words, and ends the other', async () => {
    const error = await start('one-dies', '[ "$RANK" = 0 ] && exec sleep 60; echo "no room" >&2; exit 7');
    expect(error).toMatchObject({ name: 'GradientError', code: 'lost' });
    expect(error.message).toMatch(/^Torch worker rank 1 \(pid \d+\) exited with code 7 during hello\. Last lines on stderr: no room$/);
  });

  it('says that one ran out of memory where nothing could be taken back', async () => {
    expect(await start('one-full', '[ "$RANK" = 0 ] && exec sleep 60; exit 6')).toMatchObject({ code: 'lost', needsSmallerBatches: true });
    expect(await start('one-broken', '[ "$RANK" = 0 ] && exec sleep 60; exit 5')).toMatchObject({ code: 'lost', needsSmallerBatches: false });
  });

  it('names the rank that was killed, not the one that lost its connection by it', async () => {
    const error = await start('both-die', '[ "$RANK" = 0 ] && exit 4; sleep 0.1; kill -9 $$');
    expect(error.message).toMatch(/^Torch worker rank 1 \(pid \d+\) was killed \(SIGKILL\) during hello/);
  });

  it('names the rank that hangs', async () => {
    const error = await start('one-hangs', '[ "$RANK" = 1 ] && exec sleep 60; exec cat >/dev/null', { timeoutMs: 300 });
    expect(error).toMatchObject({
      code: 'lost',
      message: expect.stringMatching(/^Torch worker rank 1 \(pid \d+\) did not answer hello within 0\.3 s/),
    });
  });

  it('names the rank that is busy while the other waits for it', async () => {
    const error = await start('one-busy', 'cat >/dev/null; [ "$RANK" = 1 ] && exit 4; exit 3', { timeoutMs: 300 });
    expect(error.message).toMatch(/^Torch worker rank 0 \(pid \d+\) did not answer hello/);
  });
});

describe.skipIf(torchPython.path === null)(`TorchBackend of several processes${skipReason}`, { timeout: 300_000 }, () => {
  /** One process, after a step: B is 0 at first, and half of all mistakes are invisible. */
  let one: TorchBackend;
  let ofOne: string;
  beforeAll(async () => {
    one = await openNano();
    ofOne = newFolder();
    await accumulate(one, batch, dLogProbs);
    await one.optimStep(ADAM);
    await one.saveState(ofOne);
  }, 300_000);
  beforeEach(() => one.loadState(ofOne));
  afterAll(() => one?.close());

  describe('that share the base, recomputing activations, next to one process', () => {
    nextToOne({ sharding: 'full', gradientCheckpointing: true });
  });
  describe('with the whole base each, next to one process', { tags: 'long' }, () => {
    nextToOne({});
  });

  function nextToOne(options: NanoOptions['options']): void {
    let two: TorchBackend;
    beforeAll(async () => {
      // Longer than any part of another test here.
      two = await openNano({ options: { ...TWO, ...options, env: { VF_TORCH_MEMORY_LIMIT_TOKENS: '100,80' } } });
    }, 300_000);
    beforeEach(() => two.loadState(ofOne));
    afterAll(() => two?.close());

    it('gives its log-probs, entropies and gradients, also for fewer sequences than processes {any batch}', async () => {
      const check = async (of: PackedBatch) => {
        const results = [];
        for (const backend of [one, two]) {
          const { batchId, logProbs, entropy } = await backend.forward(of, { ...KEPT, entropy: true });
          await backend.backward(batchId, { dLogProbs: someGradient(of.targets.length), dEntropy: someGradient(of.targets.length, 2) });
          results.push({ logProbs, entropy: entropy!, gradient: await readGradient(backend, newFolder) });
          await backend.loadState(ofOne);
        }
        const [expected, found] = results as [(typeof results)[0], (typeof results)[0]];
        // Float32 on a processor whose products depend on the size of the batch: 1.6e-5 was seen in log-probs, 1.3e-5 in the entropy, a sum over the vocabulary.
        expect(largestDifference(found.logProbs, expected.logProbs)).toBeLessThan(5e-5);
        expect(largestDifference(found.entropy, expected.entropy)).toBeLessThan(5e-5);
        expect(distance(found.gradient, expected.gradient)).toBeLessThan(1e-5);
      };
      const examples: [PackedBatch][] = [[batch], [sequences(30)], [sequences(9, 2, 20, 4, 4, 13)]];
      await fc.assert(fc.asyncProperty(batches(VOCABULARY), check), { numRuns: 8, examples });
    });

    it('goes on from its state, and it from that of several, and says so', async () => {
      expect(two.capabilities.description).toContain('processes 1 when the state was saved, 2 now');
      await accumulate(two, batch, dLogProbs);
      await two.optimStep(ADAM);
      const ofTwo = newFolder();
      await two.saveState(ofTwo);
      await accumulate(one, batch, dLogProbs);
      await one.optimStep(ADAM);
      const straight = readAdapter((await one.saveAdapter(newFolder())).directory);
      await one.loadState(ofTwo);
      expect(one.capabilities.description).toContain('processes 2 when the state was saved, 1 now');
      const found = readAdapter((await one.saveAdapter(newFolder())).directory);
      expect(distance(found, straight)).toBeLessThan(1e-5);
      // Adam's moments too.
      for (const backend of [one, two]) {
        await accumulate(backend, batch, dLogProbs);
        await backend.optimStep(ADAM);
      }
      const [adapterOfOne, adapterOfTwo] = await Promise.all(
        [one, two].map(async (backend) => readAdapter((await backend.saveAdapter(newFolder())).directory)),
      );
      expect(distance(adapterOfTwo!, adapterOfOne!)).toBeLessThan(1e-5);
    });

    it('survives one rank out of memory, in forward and in backward: the gradient stays as it was, and a smaller batch fits', async () => {
      await accumulate(two, batch, dLogProbs);
      // The longest to rank 0, the others to rank 1: 60 and 101 tokens.
      const error = await failureOf(two.forward(sequences(60, 51, 50), KEPT));
      expect(error).toMatchObject({ code: 'out_of_memory', message: expect.stringMatching(/^Rank 1: /) });
      const long = sequences(60, 41, 40);
      const { batchId } = await two.forward(long, KEPT);
      expect(await failureOf(two.backward(batchId, { dLogProbs: someGradient(3) }))).toMatchObject({ code: 'out_of_memory' });
      expect(await failureOf(two.drop(batchId))).toMatchObject({ code: 'bad_input' });
      expect((await two.stats()).retainedBatches).toBe(0);
      const kept = await readGradient(two, newFolder);
      await two.loadState(ofOne);
      await accumulate(two, batch, dLogProbs);
      expect(distance(kept, await readGradient(two, newFolder))).toBe(0);
    });

    it('counts the tokens of all ranks, and says how many there are', async () => {
      expect(two.capabilities.description).toMatch(options?.sharding ? /, 2 processes that share the base/ : /, 2 processes(;|$)/);
      const before = await two.stats();
      // More sequences than processes.
      const { batchId } = await two.forward(batch, KEPT);
      expect(await two.stats()).toMatchObject({ forwardTokens: before.forwardTokens + batch.ids.length, retainedBatches: 1 });
      await two.backward(batchId, { dLogProbs });
      expect(await two.stats()).toMatchObject({ trainedTokens: before.trainedTokens + batch.ids.length, retainedBatches: 0 });
    });
  }

  it('that share the base end where one has no memory before the first layer, and leave none waiting', { tags: 'long' }, async () => {
    const options = { ...TWO, sharding: 'full', env: { VF_TORCH_MEMORY_LIMIT_TOKENS: '1000,1000,100' }, timeoutMs: 60_000 } as const;
    const two = await openNano({ options });
    try {
      // 60 tokens to rank 0, 101 to rank 1.
      const error = await failureOf(two.forward(sequences(60, 51, 50), KEPT));
      expect(error).toMatchObject({ code: 'lost', needsSmallerBatches: true });
      expect(error.message).toMatch(
        /^Torch worker rank 1 \(pid \d+\) exited with code 6 during forward\..*forward failed where ranks exchange a layer/s,
      );
    } finally {
      await two.close();
    }
  });

  it('agrees on the failure of any rank, the most serious first, and notices a rank that is gone', { tags: 'long' }, async () => {
    const script = join(import.meta.dirname, 'agreements.py');
    const { stdout } = await promisify(execFile)(torchPython.path!, [script, mkdtempSync(join(root, 'agreements-')), NANO_BASE]);
    const [first, second] = JSON.parse(stdout) as [Record<string, unknown>, Record<string, unknown>];
    const sharded = { share: 0.5, rest: 'Tensor', bytes: true, wanted: [false, true, false, true, false] };
    const { divided, ends, 'rank 1 is gone': gone, ...common } = first;
    expect(common).toEqual(second);
    expect(common).toEqual({
      'both succeed': 'done',
      'rank 1 alone, not finite': ['not_finite', 'Rank 1: it is not_finite'],
      'rank 0 alone, out of memory': ['out_of_memory', 'Rank 0: it is out_of_memory'],
      'both, alike': ['bad_input', 'it is bad_input'],
      'out of memory and an error': ['internal', 'Rank 1: it is internal'],
      sharded,
      'an unknown exception': ['internal', 'Rank 1: ValueError: broken pipe'],
    });
    expect(gone).toBe(4);
    // A process whose GPU has failed cannot go on; one that ran out of memory says so, because the next needs smaller batches.
    expect(ends).toEqual({ 'no handle': 'out_of_memory', 'launch failure': 5, 'a bug': 'internal', 'full while a layer is gathered': 6 });
    // Whole sequences, in order, the tokens as even as the longest first makes them.
    expect(divided).toEqual([
      [[0], [], []],
      [
        [0, 3],
        [1, 2],
      ],
      [[0, 2], [1]],
      [[2], [0, 1], [3, 4]],
    ]);
  });

  describe('that loses one', () => {
    let backend: TorchBackend | undefined;
    afterEach(async () => {
      await backend?.close();
      backend = undefined;
    });

    it('is lost, names the rank and its signal, and leaves no process or folder behind', { tags: 'long' }, async () => {
      const rank = 1;
      const temporary = mkdtempSync(join(root, 'temporary-'));
      const before = process.env['TMPDIR'];
      process.env['TMPDIR'] = temporary;
      backend = await openNano({ options: { ...TWO, python: torchPython.path! } }).finally(() => {
        if (before === undefined) delete process.env['TMPDIR'];
        else process.env['TMPDIR'] = before;
      });
      const meetings = () => readdirSync(temporary).filter((name) => name.startsWith('vf-ranks-'));
      expect(meetings()).toHaveLength(1);
      const calls = [backend.forward(sequences(2048, 2048), KEPT), backend.zeroGrad()].map(failureOf);
      process.kill(backend.pids[rank]!, 'SIGKILL');
      const text = new RegExp(`^Torch worker rank ${rank} \\(pid ${backend.pids[rank]}\\) was killed \\(SIGKILL\\)`);
      for (const error of [...(await Promise.all(calls)), await failureOf(backend.zeroGrad())]) {
        expect(error).toMatchObject({ name: 'GradientError', code: 'lost', message: expect.stringMatching(text) });
      }
      await backend.exited;
      expect(backend.pids.map(isRunning)).toEqual([false, false]);
      expect(meetings()).toEqual([]);
    });

    it('ends all its processes when the trainer is killed', { tags: 'long' }, async () => {
      const trainer = spawn(process.execPath, ['--conditions=vf-search-source', join(import.meta.dirname, 'start-nano.ts'), 'cpu', 'cpu'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [line] = (await once(trainer.stdout, 'data')) as [Buffer];
      const pids = line.toString().trim().split(' ').map(Number);
      expect(pids.map(isRunning)).toEqual([true, true]);
      trainer.kill('SIGKILL');
      await expect.poll(() => pids.map(isRunning), { timeout: 20_000 }).toEqual([false, false]);
    });
  });

  describe('across hosts, here on loopback', () => {
    let remote: ChildProcess | undefined;
    afterEach(() => remote?.kill('SIGKILL'));

    it("meets at MASTER_ADDR as torchrun's ranks do, gives the same numbers, and ends the other host's rank with it", { tags: 'long' }, async () => {
      const meeting = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(await freePort()), GLOO_SOCKET_IFNAME: 'lo', HF_HUB_OFFLINE: '1' };
      const place = { RANK: '1', WORLD_SIZE: '2', LOCAL_RANK: '0', LOCAL_WORLD_SIZE: '1' };
      remote = spawn(torchPython.path!, [WORKER, '--join'], { env: { ...process.env, ...meeting, ...place }, stdio: ['ignore', 'ignore', 'ignore'] });
      const ended = once(remote, 'exit');
      const backend = await openNano({ options: { devices: ['cpu'], worldSize: 2, env: meeting } });
      expect(backend.pids).toHaveLength(1);
      expect(backend.capabilities.description).toContain('2 processes');
      await backend.loadState(ofOne);
      const [found, expected] = [await backend.forward(batch, KEPT), await one.forward(batch, KEPT)];
      expect(largestDifference(found.logProbs, expected.logProbs)).toBeLessThan(5e-5);
      await backend.backward(found.batchId, { dLogProbs });
      await one.backward(expected.batchId, { dLogProbs });
      expect(distance(await readGradient(backend, newFolder), await readGradient(one, newFolder))).toBeLessThan(1e-5);
      await backend.close();
      expect(await ended).toEqual([0, null]);
    });
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
