/**
 * Compares the torch worker in two processes (gloo, one thread each) with one process of one thread: forward, backward and Adam of a GRPO batch,
 * alternating. Means something only on a machine with two idle cores.
 *
 *     node --conditions=vf-search-source scripts/bench/worker-ranks.ts [--rounds 7] [--processes 2] [--json] [--strict]
 */
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { TorchBackend } from '../../src/trainer/gradients/torch/torch-backend.ts';
import { ADAM, ADAPTER, NANO, trainingBatch } from './embedded-workload.ts';
import { isOver, measurement, type Pair, report } from './measurement.ts';

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    processes: { type: 'string', default: '2' },
    json: { type: 'boolean' },
    strict: { type: 'boolean' },
  },
});
const [rounds, processes] = [Number(given.rounds), Number(given.processes)];
const ROOT = join(import.meta.dirname, '../..');
const BAR = 0.65;
const signal = new AbortController().signal;
const python =
  process.env['VF_TORCH_PYTHON'] ??
  spawnSync(join(ROOT, 'scripts/vllm-cpu/install.sh'), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    .stdout.trim()
    .split('\n')
    .at(-1)!;

const ours = await open(processes);
const peer = await open(1);
const batch = trainingBatch(8, 8);
const dLogProbs = Float32Array.from(batch.targets, (_, i) => Math.sin(i) / batch.targets.length);
for (const backend of [ours, peer, ours, peer]) await step(backend);
const pairs: Pair[] = [];
for (let i = 0; i < rounds; i++) pairs.push({ ours: await step(ours), peer: await step(peer) });
await Promise.all([ours.close(), peer.close()]);
const what = `forward, backward and Adam of 64 sequences of 200 tokens, ${processes} processes of one thread`;
// The promise is for two processes.
const result = measurement({ what, unit: 's', against: 'torch worker, one thread', bar: processes === 2 ? BAR : null }, pairs);
report([result]);
if (given.strict && isOver(result)) process.exitCode = 1;

function open(count: number): Promise<TorchBackend> {
  return TorchBackend.start({
    python,
    modelPath: resolve(ROOT, NANO),
    adapter: ADAPTER,
    devices: Array.from({ length: count }, () => 'cpu'),
    dtype: 'float32',
    gradientCheckpointing: false,
    threads: 1,
    timeoutMs: 600_000,
    logPath: null,
    signal,
    env: { ...process.env, OMP_NUM_THREADS: '1', OMP_WAIT_POLICY: 'PASSIVE' },
  });
}

/** Seconds. */
async function step(backend: TorchBackend): Promise<number> {
  const beganMs = performance.now();
  const { batchId } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
  await backend.backward(batchId, { dLogProbs });
  await backend.optimStep(ADAM);
  return (performance.now() - beganMs) / 1000;
}
