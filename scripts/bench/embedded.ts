/**
 * Measures the embedded engine with Node alone: time to the first token of a fresh process, speed-up by a second thread.
 *
 *     node --conditions=vf-search-source scripts/bench/embedded.ts [--rounds 5] [--json]
 *
 * Uses the compiled package (npm run build), as users do. For a promised limit without a peer, the peer column shows the limit.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { EmbeddedEngine as Engine } from '../../src/engine/embedded-engine.ts';
import { ADAM, ADAPTER, NANO, prompts, request, trainingBatch } from './embedded-workload.ts';
import { type Measurement, measurement, type Pair, report } from './measurement.ts';

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean' },
    strict: { type: 'boolean' },
  },
});
const rounds = Number(given.rounds);
const DIST = join(import.meta.dirname, '../../dist/src/engine/embedded-engine.js');
const signal = new AbortController().signal;
const { EmbeddedEngine } = (await import(DIST)) as { EmbeddedEngine: typeof Engine };

const BARS = { firstTokenSeconds: 0.3, secondThread: 1 / 1.6 };

/** Each thread compiles its own JavaScript, so two threads warm up more slowly. */
const WARM_UPS = 5;
/** A run takes 0.2 s, so single runs are noisy. */
const PAIRS_A_ROUND = 5;

const measurements: Measurement[] = [
  promised('first token, from the start of the process', 's', BARS.firstTokenSeconds, repeat(firstToken)),
  ...(await secondThread()),
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
