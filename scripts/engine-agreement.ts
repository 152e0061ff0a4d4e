/**
 * Measures how far the embedded engine is from torch: log-probs of base and adapter, and gradients of the adapter, on the reference vectors in test/golden/engine/
 * (torch and transformers in float64, written by test/golden/producers/engine.py). Needs only Node; `npm run test:vllm` compares with a running torch worker and vLLM.
 *
 *     npm run agreement
 *
 * Also prints the error of torch's own float32, as a measure of what float32 can achieve. Exit 1 if a bar is missed.
 */
import { TrainerPass } from '../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../src/engine/compute/training-layout.ts';
import { Workbench } from '../test/engine/compute/any-model.ts';
import {
  goldenModel,
  GOLDENS,
  type GoldenName,
  gradientErrors,
  largestDifference,
  logProbTolerance,
  readGolden,
} from '../test/engine/compute/golden.ts';

const GRADIENT_BAR = 1e-4;
const COLUMNS = [14, 10, 12, 12, 14, 10, 12, 9];

let isMissed = false;
line(['model', 'kernels', 'base', 'adapter', "torch float32's", 'bar', 'gradient', 'bar']);
for (const name of GOLDENS) for (const build of ['relaxed', 'plain'] as const) await compare(name, build);
process.exitCode = isMissed ? 1 : 0;

async function compare(name: GoldenName, build: 'relaxed' | 'plain'): Promise<void> {
  const bench = new Workbench(build);
  const golden = readGolden(name);
  const model = await goldenModel(name, bench);
  const { rank, alpha } = golden;
  const adapter = bench.randomAdapter({ config: model.config, rank, alpha });
  const batch = {
    ids: Int32Array.from(golden.ids),
    offsets: Int32Array.from(golden.offsets),
    targets: Int32Array.from(golden.targets),
    temperature: 1,
  };
  const region = bench.memory.allocate(trainingBytes(model.config, { tokens: batch.ids.length, rank, checkpointing: false }));
  const pass = new TrainerPass({ kernels: bench.kernels, memory: bench.memory.memory, model, region, checkpointing: false });
  const base = pass.forward(batch, { adapter: null, retain: false, entropy: false });
  const adapted = pass.forward(batch, { adapter, retain: true, entropy: false });
  const gradient = bench.gradient({ config: model.config, rank });
  pass.backward(gradient, { dLogProbs: Float32Array.from(golden.d_log_probs), dEntropy: null, scale: alpha / rank });
  const found = {
    base: largestDifference(base.logProbs, golden.base),
    adapter: largestDifference(adapted.logProbs, golden.adapter),
    torch: largestDifference(golden.base_float32, golden.base),
    gradient: gradientErrors(bench, model, gradient, golden).all,
  };
  const bar = logProbTolerance(golden);
  if (!(Math.max(found.base, found.adapter) < bar && found.gradient < GRADIENT_BAR)) isMissed = true;
  const texts = [found.base, found.adapter, found.torch, bar, found.gradient, GRADIENT_BAR].map((value) => value.toExponential(1));
  line([name, build, ...texts]);
}

function line(cells: readonly string[]): void {
  process.stdout.write(
    `${cells
      .map((cell, i) => cell.padEnd(COLUMNS[i]! + 2))
      .join('')
      .trimEnd()}\n`,
  );
}
