/**
 * Times the embedded engine's passes on one thread with the nano model: prefill, decode at several batch sizes, forward and backward of a batch of rollouts.
 *
 *     npm run bench -- engine-compute [--rounds 7] [--build relaxed|plain] [--python PATH] [--json]
 *
 * Uses CPU time of the process, because other work distorts the wall clock. With `--python` (torch and transformers) torch does the same forward and backward on one
 * thread, alternating with ours; both must agree on log-probs and the gradient's norm.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { cacheBlockBytes } from '../../src/engine/compute/dimensions.ts';
import type { Segment } from '../../src/engine/compute/forward-types.ts';
import { TrainerPass } from '../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../src/engine/compute/training-layout.ts';
import type { SequenceBatch } from '../../src/engine/compute/training-types.ts';
import { forwardBytes, TransformerPass } from '../../src/engine/compute/transformer-pass.ts';
import type { KernelsBuild } from '../../src/engine/kernels/compile-kernels.ts';
import { ADAPTED, type AdapterWeights } from '../../src/engine/model/model-types.ts';
import { moduleSize, Workbench } from '../../test/engine/compute/any-model.ts';
import { hashNumbers } from '../../test/engine/compute/hash-numbers.ts';
import { type Measurement, measurement, report } from './measurement.ts';
import { loadModel } from '../../test/engine/from-directory.ts';

const MODEL = join(import.meta.dirname, '../../models/nano-base');
const PEER = join(import.meta.dirname, 'peers/engine-compute/torch_step.py');
const [RANK, ALPHA] = [8, 16];
/** Two questions with 8 rollouts each: 130 prompt tokens, 115 of them common to both, and 70 more. */
const [PROMPTS, GROUP, HEAD, PROMPT, LENGTH] = [2, 8, 115, 130, 200];
const MAX_ROWS = 1024;
const BLOCKS = 64 * 16;

const ALL_BLOCKS: readonly Int32Array[] = Array.from({ length: 64 }, (_, sequence) =>
  Int32Array.from({ length: 16 }, (_block, i) => sequence * 16 + i),
);

/** The first 112 tokens share blocks, as in groups of rollouts. */
const SHARED_BLOCKS = ALL_BLOCKS.map((blocks) => blocks.map((block, i) => (i < 7 ? i : block)));
const STEPS = 48;
const CONTEXTS: readonly (readonly [string, number, readonly Int32Array[]])[] = [
  ['16 to 64 tokens before', 16, ALL_BLOCKS],
  ['128 to 176, 112 of them shared', 128, SHARED_BLOCKS],
  ['128 to 176', 128, ALL_BLOCKS],
];

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    build: { type: 'string' },
    python: { type: 'string' },
    json: { type: 'boolean' },
  },
});
const rounds = Number(values.rounds);
const bench = new Workbench(values.build as KernelsBuild | undefined);
const { kernels, memory } = bench;
const model = await loadModel(MODEL, { memory, kernels, signal: AbortSignal.timeout(20_000) });
const { config } = model;
const adapter = bench.randomAdapter({ config, rank: RANK, alpha: ALPHA });
const parts = { kernels, memory: memory.memory, model };

const limits = { rows: MAX_ROWS, logitRows: 64 };
const cache = { pointer: memory.allocate(BLOCKS * cacheBlockBytes(config)).pointer, blocks: BLOCKS };
const forward = new TransformerPass({ ...parts, cache, region: memory.allocate(forwardBytes(config, limits, RANK)), limits, maxRank: RANK });

const rollouts = batchOf((i) => [
  ...tokens('head', HEAD),
  ...tokens(`prompt ${Math.floor(i / GROUP)}`, PROMPT - HEAD),
  ...tokens(`rollout ${i}`, LENGTH - PROMPT),
]);
/** Without shared prefixes, which ours computes once and torch does not. */
const strangers = batchOf((i) => [...tokens(`stranger ${i}`, LENGTH)]);
const { ids } = rollouts;
const dLogProbs = Float32Array.from(hashNumbers('d_log_probs', rollouts.targets.length), (value) => value / 100);
const gradient = bench.gradient({ config, rank: RANK });

if (!values.json) tell();
const peerPython = values.python;
if (peerPython !== undefined) {
  report([await besidePeer(peerPython, '16 rollouts', rollouts), await besidePeer(peerPython, '16 sequences that share nothing', strangers)]);
}

function batchOf(sequence: (i: number) => readonly number[]): SequenceBatch {
  const all = Int32Array.from(Array.from({ length: PROMPTS * GROUP }, (_, i) => sequence(i)).flat());
  return {
    ids: all,
    offsets: Int32Array.from({ length: PROMPTS * GROUP + 1 }, (_, i) => i * LENGTH),
    targets: Int32Array.from(all.keys()).filter((place) => place % LENGTH >= PROMPT),
    temperature: 1,
  };
}

function tokens(name: string, count: number): Int32Array {
  return Int32Array.from(hashNumbers(name, count), (value) => Math.floor(((value + 1) / 2) * 1500));
}

/** CPU seconds of one call, the minimum of several rounds, because other work only ever slows it down. */
function seconds(work: () => unknown): number {
  return Math.min(...Array.from({ length: rounds + 2 }, () => cpuSeconds(work)));
}

function cpuSeconds(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function tell(): void {
  const line = (what: string, rate: number) => process.stdout.write(`${what.padEnd(60)} ${rate.toFixed(0).padStart(7)} tokens/s\n`);
  for (const [name, of] of [
    ['base', null],
    ['LoRA', adapter],
  ] as const) {
    line(`prefill of 1,000 tokens in sequences of 125, ${name}`, 1000 / seconds(() => prefill(of)));
    for (const size of [1, 8, 32, 64]) {
      for (const [context, first, blocks] of CONTEXTS) {
        line(`decode at batch ${size}, ${context}, ${name}`, (size * STEPS) / seconds(() => decode({ size, first, blocks, of })));
      }
    }
  }
  for (const [name, batch] of [
    ['16 rollouts', rollouts],
    ['16 sequences that share nothing', strangers],
  ] as const) {
    for (const checkpointing of [false, true]) {
      const pass = trainer(checkpointing);
      const what = `of ${name}${checkpointing ? ', checkpointing' : ''}`;
      line(`forward and backward ${what}`, ids.length / seconds(() => step(pass, batch)));
      line(`forward ${what}`, ids.length / seconds(() => pass.forward(batch, { adapter, retain: true, entropy: false })));
    }
  }
}

function prefill(of: AdapterWeights | null): void {
  const segments = Array.from({ length: 8 }, (_, i): Segment => ({
    tokens: ids.subarray(i * 125, i * 125 + 125),
    past: 0,
    blocks: ALL_BLOCKS[i]!,
    adapter: of,
    logits: 'last',
  }));
  forward.run(segments, () => {});
}

function decode({ size, first, blocks, of }: { size: number; first: number; blocks: readonly Int32Array[]; of: AdapterWeights | null }): void {
  for (let past = first; past < first + STEPS; past++) {
    const segments: Segment[] = [];
    for (let i = 0; i < size; i++) segments.push({ tokens: ids.subarray(past, past + 1), past, blocks: blocks[i]!, adapter: of, logits: 'last' });
    forward.run(segments, () => {});
  }
}

function trainer(checkpointing: boolean): TrainerPass {
  const region = memory.allocate(
    trainingBytes(config, { tokens: ids.length, maxTargets: dLogProbs.length, sequences: PROMPTS * GROUP, rank: RANK, checkpointing }),
  );
  return new TrainerPass({ ...parts, region, checkpointing });
}

function step(pass: TrainerPass, batch: SequenceBatch): Float32Array {
  const { logProbs } = pass.forward(batch, { adapter, retain: true, entropy: false });
  pass.backward(gradient, { dLogProbs, dEntropy: null, scale: ALPHA / RANK });
  return logProbs;
}

/** Alternates ours and torch's, on the same sequences with the same adapter. */
async function besidePeer(python: string, what: string, batch: SequenceBatch): Promise<Measurement> {
  const directory = mkdtempSync(join(tmpdir(), 'vf-bench-'));
  const path = join(directory, 'batch.json');
  const rows = Array.from({ length: PROMPTS * GROUP }, (_, i) => [...batch.ids.subarray(i * LENGTH, (i + 1) * LENGTH)]);
  writeFileSync(path, JSON.stringify({ ids: rows, first_target: PROMPT, rank: RANK, alpha: ALPHA, d_log_probs: [...dLogProbs] }));
  const peer = spawn(python, [PEER, MODEL, path], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, OMP_NUM_THREADS: '1' } });
  const lines = createInterface({ input: peer.stdout })[Symbol.asyncIterator]();
  const closed = once(peer, 'close');
  try {
    const askPeer = async () => {
      peer.stdin.write('\n');
      const { value, done } = await lines.next();
      if (done) throw new Error('The peer ended without an answer; see its output above.');
      return JSON.parse(value) as { readonly seconds: number; readonly log_probs: readonly number[]; readonly norm: number };
    };
    const pass = trainer(false);
    clearGradient();
    checkSame(step(pass, batch), await askPeer());
    step(pass, batch);
    const pairs: { ours: number; peer: number }[] = [];
    for (let round = 0; round < rounds; round++)
      pairs.push({ peer: 1000 * (await askPeer()).seconds, ours: 1000 * cpuSeconds(() => step(pass, batch)) });
    return measurement(
      { what: `LoRA forward and backward of ${what}, one thread`, unit: 'CPU ms', against: 'torch 2.13, transformers 5.19', bar: 2 },
      pairs,
    );
  } finally {
    peer.stdin.end();
    await closed;
    rmSync(directory, { recursive: true });
  }
}

/** Makes sure that both compute the same thing. */
function checkSame(logProbs: Float32Array, peer: { readonly log_probs: readonly number[]; readonly norm: number }): void {
  const apart = Math.max(...peer.log_probs.map((expected, i) => Math.abs(expected - logProbs[i]!)));
  const norm = Math.sqrt(gradientTensors().reduce((sum, tensor) => sum + tensor.reduce((all, value) => all + value * value, 0), 0));
  if (!(apart < 5e-5)) throw new Error(`Our log-probs differ from torch's by ${apart}; the limit is 5e-5.`);
  if (!(Math.abs(norm / peer.norm - 1) < 1e-4)) throw new Error(`Our gradient norm is ${norm}, torch's is ${peer.norm}.`);
}

function clearGradient(): void {
  for (const tensor of gradientTensors()) tensor.fill(0);
}

function gradientTensors(): Float32Array[] {
  return gradient.layers.flatMap((modules) =>
    ADAPTED.flatMap((module) => {
      const { inputs, outputs } = moduleSize(config, module);
      return [bench.floats(modules[module]!.a, RANK * inputs), bench.floats(modules[module]!.b, RANK * outputs)];
    }),
  );
}
