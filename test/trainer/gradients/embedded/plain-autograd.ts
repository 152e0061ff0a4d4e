/** The cases of the gradient backend's contract, solved in float64 by PlainQwen3: the reference where there is no Python. */
import type { GradientCase, GradientReference } from '../../../contracts/gradient-cases.ts';
import type { AdamOptions } from '../../../../src/core/adam-options.ts';
import { PlainQwen3, type PlainAdapter, readPlainAdapter } from './plain-qwen3.ts';
import { type Matrix, Tape } from './tape.ts';

export function plainReferences(modelPath: string, cases: readonly GradientCase[]): GradientReference[] {
  const model = new PlainQwen3(modelPath);
  return cases.map((one) => {
    const adapter = one.adapter === null ? null : readPlainAdapter(one.adapter);
    const { logProbs: log_probs, entropy } = differentiate(model, adapter, one);
    if (!one.dLogProbs) return { log_probs, entropy };
    const gradient = new Map(Array.from(adapter!.leaves, ([name, leaf]) => [name, leaf.gradient!.slice()]));
    const result = { log_probs, entropy, gradient: Object.fromEntries(gradient) };
    if (!one.adam) return result;
    const norms = trainSteps(model, adapter!, one, one.adam);
    const parameters = Object.fromEntries(Array.from(adapter!.leaves, ([name, { data }]) => [name, data]));
    return { ...result, parameters, norms };
  });
}

/** Log-probs and entropies of the targets; the gradient of sum(dLogProbs · logProbs + dEntropy · entropy) is added to the adapter's leaves. */
export function differentiate(
  model: PlainQwen3,
  adapter: PlainAdapter | null,
  { batch, dLogProbs, dEntropy }: Pick<GradientCase, 'batch' | 'dLogProbs' | 'dEntropy'>,
): { readonly logProbs: number[]; readonly entropy: number[] } {
  const { offsets, targets, temperature } = batch;
  const [logProbs, entropy]: [number[], number[]] = [[], []];
  for (const [i, start] of offsets.subarray(0, -1).entries()) {
    const ids = [...batch.ids.subarray(start, offsets[i + 1])];
    const inside = [...targets].filter((target) => start <= target && target < start + ids.length).map((target) => target - start);
    if (inside.length === 0) continue;
    const tape = new Tape();
    const places = inside.map((target) => target - 1);
    const table = model.logProbs(tape, ids, places, temperature, adapter);
    for (const [row, target] of inside.entries()) {
      const [from, to] = [row * table.columns, (row + 1) * table.columns];
      const m = logProbs.length;
      logProbs.push(table.data[from + ids[target]!]!);
      entropy.push(-table.data.subarray(from, to).reduce((sum, x) => sum + x * Math.exp(x), 0));
      if (dLogProbs) table.gradient![from + ids[target]!]! += dLogProbs[m]!;
      if (dEntropy) for (let j = from; j < to; j++) table.gradient![j]! -= dEntropy[m]! * Math.exp(table.data[j]!) * (1 + table.data[j]!);
    }
    if (dLogProbs) tape.backward();
  }
  return { logProbs, entropy };
}

/** Steps of AdamW with clipping, as PyTorch defines them; the norms before clipping. */
function trainSteps(model: PlainQwen3, adapter: PlainAdapter, one: GradientCase, options: AdamOptions & { readonly steps: number }): number[] {
  const leaves = Array.from(adapter.leaves.values(), (leaf) => ({
    leaf,
    m: new Float64Array(leaf.data.length),
    v: new Float64Array(leaf.data.length),
  }));
  return Array.from({ length: options.steps }, (_, step) => {
    for (const { leaf } of leaves) leaf.gradient!.fill(0);
    differentiate(model, adapter, one);
    const norm = Math.sqrt(leaves.reduce((sum, { leaf }) => sum + leaf.gradient!.reduce((part, g) => part + g * g, 0), 0));
    const clip = options.maxGradNorm === null ? 1 : Math.min(1, options.maxGradNorm / (norm + 1e-6));
    for (const { leaf, m, v } of leaves) stepAdam(leaf, m, v, clip, step + 1, options);
    return norm;
  });
}

function stepAdam({ data, gradient }: Matrix, m: Float64Array, v: Float64Array, clip: number, step: number, options: AdamOptions): void {
  const { learningRate, beta1, beta2, epsilon, weightDecay } = options;
  for (let i = 0; i < data.length; i++) {
    const g = gradient![i]! * clip;
    m[i] = beta1 * m[i]! + (1 - beta1) * g;
    v[i] = beta2 * v[i]! + (1 - beta2) * g * g;
    const [mean, variance] = [m[i]! / (1 - beta1 ** step), v[i]! / (1 - beta2 ** step)];
    data[i] = data[i]! * (1 - learningRate * weightDecay) - (learningRate * mean) / (Math.sqrt(variance) + epsilon);
  }
}
