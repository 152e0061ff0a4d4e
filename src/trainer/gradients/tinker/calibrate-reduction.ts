/** Finds out how a training service combines the losses of a request's sequences, by two steps at a learning rate of 0. */
import { ConfigError } from '../../../core/errors.ts';
import type { ServiceModel } from '../../../tinker/service/service-model.ts';
import { textDatum } from '../../../tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../tinker/wire/wire-tensor.ts';

/** `sum`: gradients of sequences add up. `mean`: a sequence's loss is divided by the sum of its weights, and the gradient by the number of sequences since the last step. */
export type Reduction = 'sum' | 'mean';

const STILL = { learningRate: 0, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null };
/** Ids that every vocabulary has. */
const IDS = Int32Array.of(3, 5, 7, 11, 13, 17);
/** Of the two norms' ratio. */
const TOLERANCE = 0.05;

/**
 * Takes the same sequence once and twice: the norm of the gradient doubles where losses are summed, and stays where they are averaged. The model must be fresh; its weights stay as they
 * are. Throws ConfigError if the service returns no norm, or one that fits neither.
 */
export async function calibrateReduction(model: ServiceModel, signal: AbortSignal): Promise<Reduction> {
  const ones = floatRow(new Float32Array(IDS.length - 1).fill(1));
  const datum = textDatum(IDS.slice(0, -1), { target_tokens: tokenRow(IDS.slice(1)), weights: ones });
  const norms: number[] = [];
  for (const data of [[datum], [datum, datum]]) {
    const passed = await model.pass({ lossFn: 'cross_entropy', lossConfig: {}, isForwardOnly: false, data }, signal);
    const stepped = await model.step(STILL, signal);
    await passed.result();
    const norm = gradNormOf(await stepped.result());
    if (norm === null)
      throw new ConfigError(
        'The training service returns no norm of the gradient, so that its reduction of losses cannot be found out. Set backend.reduction = "sum" (the hosted Tinker, SkyRL with FSDP or Megatron) or "mean" (SkyRL with JAX)',
      );
    norms.push(norm);
  }
  const ratio = norms[1]! / norms[0]!;
  if (Math.abs(ratio - 2) < TOLERANCE) return 'sum';
  if (Math.abs(ratio - 1) < TOLERANCE) return 'mean';
  throw new ConfigError(
    `The training service combines losses in a way that is neither a sum nor a mean: the gradient of one sequence has the norm ${norms[0]}, that of the same one twice ${norms[1]}. Set backend.reduction if you know it`,
  );
}

/** The norm of the gradient before clipping, from a step's metrics, whose names differ from server to server; null if there is none. */
export function gradNormOf(metrics: Readonly<Record<string, number>>): number | null {
  const found = Object.entries(metrics).find(([name]) => /(^|[/_.])(unclipped_)?grad_norm(:\w+)?$/.test(name));
  return found?.[1] ?? null;
}
