/**
 * Measures the embedded engine with Node alone: time to the first token of a fresh process, speed-up by a second thread, memory over many training steps.
 *
 *     node --conditions=source scripts/bench/embedded.ts [--steps 500] [--rounds 5] [--json]
 *
 * Uses the compiled package (npm run build), as users do. For a promised limit without a peer, the peer column shows the limit.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import type { EmbeddedEngine as Engine } from '../../src/engine/embedded-engine.ts';
import { watchPeakMemory } from '../proof/training-proof.ts';
import { ADAM, ADAPTER, NANO, prompts, request, trainingBatch } from './embedded-workload.ts';
import { type Measurement, measurement, type Pair, report } from './measurement.ts';

const { values: given } = parseArgs({
  options: {
    steps: { type: 'string', default: '500' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean' },
    strict: { type: 'boolean' },
  },
});
const rounds = Number(given.rounds);
const DIST = join(import.meta.dirname, '../../dist/src/engine/embedded-engine.js');
const signal = new AbortController().signal;
const { EmbeddedEngine } = (await import(DIST)) as { EmbeddedEngine: typeof Engine };

const BARS = { firstTokenSeconds: 0.3, secondThread: 1 / 1.6, memoryMb: 400, growth: 1.1 };

/** Each thread compiles its own JavaScript, so two threads warm up more slowly. */
const WARM_UPS = 5;
/** A run takes 0.2 s, so single runs are noisy. */
const PAIRS_A_ROUND = 5;

const measurements: Measurement[] = [
  promised('first token, from the start of the process', 's', BARS.firstTokenSeconds, repeat(firstToken)),
  ...(await secondThread()),
  ...(await memory(Number(given.steps))),
];
report(measurements);

function promised(what: string, unit: string, aim: number, ours: readonly number[]): Measurement {
  return measurement(
    { what, unit, against: 'promised', bar: 1 },
    ours.map((value) => ({ ours: value, peer: aim })),
  );
}

function repeat(measure: () => number): number[] {
  return Array.from({ length: rounds }, measure);
}

/** Seconds until a fresh process has a token. */
function firstToken(): number {
  const path = join(import.meta.dirname, 'first-token.mjs');
  const { stdout, status } = spawnSync(process.execPath, [path], { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' });
  if (status !== 0) throw new Error(`${path} failed with exit status ${status}.`);
  return Number(stdout);
}

async function secondThread(): Promise<Measurement[]> {
  await using open = new AsyncDisposableStack();
  const engines = [];
  for (const threads of [2, 1]) {
    const engine = await EmbeddedEngine.open({ modelPath: NANO, threads, signal });
    open.defer(() => engine.close());
    const trainer = await engine.createTrainer({ ...ADAPTER, checkpointing: false, memoryBytes: 2 ** 29, signal });
    open.defer(() => trainer.close());
    engines.push({ engine, trainer });
  }
  const [two, one] = engines as [(typeof engines)[0], (typeof engines)[0]];
  const sample = ({ engine }: typeof two) =>
    seconds(() => Promise.all(prompts(8, 8).map((prompt, seed) => engine.generate(request(prompt, { adapter: null, maxTokens: 64, seed })))));
  const batch = trainingBatch(8, 8);
  const gradient = { dLogProbs: new Float32Array(batch.targets.length).fill(1 / batch.targets.length), dEntropy: null };
  const train = ({ trainer }: typeof two) =>
    seconds(async () => {
      const { batch: id } = await trainer.forward(batch, { adapter: 'on', retain: true, entropy: false });
      await trainer.backward(id, gradient);
      await trainer.step(ADAM);
    });
  const pairs = async (run: (of: typeof two) => Promise<number>): Promise<Pair[]> => {
    const found: Pair[] = [];
    const more = async (count: number) => {
      for (let i = 0; i < count; i++) found.push({ ours: await run(two), peer: await run(one) });
    };
    await more(WARM_UPS);
    found.length = 0;
    await more(PAIRS_A_ROUND * rounds);
    return found;
  };
  const about = { unit: 's', against: 'one thread', bar: BARS.secondThread };
  return [
    measurement({ ...about, what: 'sampling 64 × 64 tokens, two threads' }, await pairs(sample)),
    measurement({ ...about, what: `a training step of ${batch.ids.length} tokens, two threads` }, await pairs(train)),
  ];
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const beganMs = performance.now();
  await work();
  return (performance.now() - beganMs) / 1000;
}

/** Resident memory of `vf-train` over many small steps of the laptop preset: after a tenth of them, at the end, and at its peak. Linux only. */
async function memory(steps: number): Promise<Measurement[]> {
  const output = mkdtempSync(join(tmpdir(), 'vf-memory-'));
  // A tiny learning rate keeps rewards different; with equal rewards a step would train nothing.
  const sizes = ['--steps', String(steps), '-n', '3', '-r', '4', '--lr', '1e-6', '--set', 'evaluation.examples=16'];
  const args = ['bin/vf-train.js', 'search-r1', '--preset', 'laptop', ...sizes, '--plain', '-o', output];
  const child = spawn(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), stdio: ['ignore', 'ignore', 'pipe'] });
  const peak = watchPeakMemory(child.pid!);
  let [early, late] = [NaN, NaN];
  for await (const line of createInterface({ input: child.stderr })) {
    const step = Number(/^step +([\d,]+)\//.exec(line)?.[1]?.replace(',', ''));
    if (step === steps / 10) early = residentBytes(child.pid!);
    if (step === steps && line.includes('reward')) late = residentBytes(child.pid!);
  }
  const most = peak.stop();
  rmSync(output, { recursive: true, force: true });
  if (most === null || !(early > 0 && late > 0)) throw new Error('Could not read the memory of vf-train. This bench needs Linux.');
  const about = { unit: 'MB', against: `after ${steps / 10} steps`, bar: BARS.growth };
  return [
    measurement({ ...about, what: `memory after ${steps} training steps` }, [{ ours: late / 1e6, peer: early / 1e6 }]),
    promised(`most memory in ${steps} training steps`, 'MB', BARS.memoryMb, [most / 1e6]),
  ];
}

function residentBytes(pid: number): number {
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
