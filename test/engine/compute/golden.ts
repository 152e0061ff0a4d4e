/** The reference figures that test/golden/producers/engine.py wrote, and the models they are of. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AdapterGradient } from '../../../src/engine/compute/training-types.ts';
import { ADAPTED, type ModelConfig, type ModelWeights } from '../../../src/engine/model/model-types.ts';
import { moduleSize, tensorName, type Workbench } from './any-model.ts';
import { hashNumbers } from './hash-numbers.ts';
import { loadModel } from '../from-directory.ts';

interface GradientFigures {
  readonly gradients: Readonly<Record<string, { readonly norm: number; readonly projections: readonly number[] }>>;
  /** Base64 of float32. */
  readonly full: Readonly<Record<string, string>>;
}

/** As config.json has it. */
interface GoldenConfig {
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly tie_word_embeddings: boolean;
}

export interface Golden extends GradientFigures {
  /** A directory in the repository; null for a model of hashed numbers. */
  readonly model: string | null;
  readonly config: GoldenConfig;
  /** What the weights of the norms of queries and keys are multiplied by. */
  readonly head_norm?: number;
  readonly rank: number;
  readonly alpha: number;
  readonly ids: readonly number[];
  readonly offsets: readonly number[];
  readonly targets: readonly number[];
  readonly temperature: number;
  readonly base: readonly number[];
  readonly base_float32: readonly number[];
  readonly adapter: readonly number[];
  readonly entropy: readonly number[];
  readonly d_log_probs: readonly number[];
  readonly hot: GradientFigures & {
    readonly log_probs: readonly number[];
    readonly entropy: readonly number[];
    readonly d_entropy: readonly number[];
  };
}

const ROOT = join(import.meta.dirname, '../../..');

/** `wide`: heads much wider than the model, scores that e^x alone would take beyond float32. `deep`: many layers, narrow heads with keys of their own. */
export const GOLDENS = ['nano', 'o1', 'tiny', 'wide', 'deep'] as const;
export type GoldenName = (typeof GOLDENS)[number];

export const readGolden = (name: GoldenName): Golden => JSON.parse(readFileSync(join(ROOT, 'test/golden/engine', `${name}.json`), 'utf8')) as Golden;

export async function goldenModel(name: GoldenName, bench: Workbench): Promise<ModelWeights> {
  const { model, config, head_norm: headNorm = 1 } = readGolden(name);
  if (model === null) return bench.randomModel(configOf(name, config), { headNorm });
  return loadModel(join(ROOT, model), { memory: bench.memory, kernels: bench.kernels, signal: AbortSignal.timeout(20_000) });
}

function configOf(name: string, config: GoldenConfig): ModelConfig {
  return {
    vocabularySize: config.vocab_size,
    hiddenSize: config.hidden_size,
    intermediateSize: config.intermediate_size,
    layers: config.num_hidden_layers,
    heads: config.num_attention_heads,
    kvHeads: config.num_key_value_heads,
    headDim: config.head_dim,
    maxPositions: config.max_position_embeddings,
    rmsNormEpsilon: config.rms_norm_eps,
    ropeTheta: config.rope_theta,
    tiedEmbeddings: config.tie_word_embeddings,
    endTokenIds: [],
    path: name,
  };
}

/** How far a log-prob may be off: 2e-5; where the scores are so large that float32 costs torch more than that, a few times what it costs torch. */
export function logProbTolerance({ base, base_float32: plain }: Golden): number {
  const cost = largestDifference(base, plain);
  return cost < 2e-5 ? 2e-5 : 3 * cost;
}

export const largestDifference = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Math.max(...Array.from({ length: Math.max(a.length, b.length) }, (_, i) => Math.abs(a[i]! - b[i]!)));

/** Of each tensor the relative error against the reference: exact where the whole tensor is known, else estimated from its projections. And of all together. */
export function gradientErrors(
  bench: Workbench,
  model: ModelWeights,
  gradient: AdapterGradient,
  expected: GradientFigures,
): { worst: number; all: number } {
  const squares: { error: number; size: number }[] = [];
  for (const [layer, modules] of gradient.layers.entries()) {
    for (const module of ADAPTED) {
      const { inputs, outputs } = moduleSize(model.config, module);
      for (const half of ['A', 'B'] as const) {
        const name = tensorName(layer, module, half);
        const got = bench.floats(half === 'A' ? modules[module]!.a : modules[module]!.b, gradient.rank * (half === 'A' ? inputs : outputs));
        squares.push({ error: squaredError(name, got, expected), size: expected.gradients[name]!.norm ** 2 });
      }
    }
  }
  const total = (which: 'error' | 'size') => squares.reduce((sum, each) => sum + each[which], 0);
  return { worst: Math.max(...squares.map(({ error, size }) => Math.sqrt(error / size))), all: Math.sqrt(total('error') / total('size')) };
}

function squaredError(name: string, got: Float32Array, { gradients, full }: GradientFigures): number {
  const whole = full[name];
  if (whole !== undefined) {
    const bytes = Buffer.from(whole, 'base64');
    return got.reduce((sum, value, i) => sum + (value - bytes.readFloatLE(i * 4)) ** 2, 0);
  }
  // A vector of numbers uniform in [-1, 1) meets an error of size e with e² / 3 on average.
  const errors = gradients[name]!.projections.map((projection, i) => {
    const vector = hashNumbers(`${name}/${i}`, got.length);
    return got.reduce((sum, value, k) => sum + value * vector[k]!, 0) - projection;
  });
  return (3 * errors.reduce((sum, error) => sum + error ** 2, 0)) / errors.length;
}
