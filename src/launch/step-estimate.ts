/**
 * Estimates the time of a training step from speeds that others published, scaled by the number of parameters. None of it was measured with this package. The
 * estimate is the same for every card: the speeds are those of an H100 (training) and an H200 (sampling).
 */
import { type ModelShape, parameterCount } from './model-shape.ts';

export interface StepLoad {
  readonly shape: ModelShape;
  /** Rollouts of a step. */
  readonly rollouts: number;
  /** Tokens of the longest rollout. */
  readonly contextTokens: number;
  /** Passes over a batch, in units of one forward and backward pass: 1.5 with a pass of the reference. */
  readonly passes: number;
  readonly workers: number;
  /** GPUs that sample; 0 if others run the servers. */
  readonly samplers: number;
  /** True if a worker and a server share a GPU or wait for each other; false if a step takes the longer of the two. */
  readonly isSequential: boolean;
}

/** Seconds. `sample` is null if others run the servers; `step` then counts training alone. */
export interface StepTime {
  readonly train: number;
  readonly sample: number | null;
  readonly step: number;
  /** The mean rollout that was assumed. */
  readonly rolloutTokens: number;
  readonly sampledTokens: number;
}

/** prime-rl's benchmark: Qwen3-4B, LoRA of rank 16, recompute, 16k tokens, one H100. */
const TRAINING = { parameters: 4.02e9, tokensPerSecond: 6229 };
/** Hugging Face's report on asynchronous LoRA: 1.5B, one H200, 128 rollouts at once. */
const SAMPLING = { parameters: 1.54e9, tokensPerSecond: 25_000 };
/** Search-R1: of 4,596 tokens at most, a rollout has about 1,500, of which the model wrote 400. */
const MEAN_SHARE = 1500 / 4596;
const SAMPLED_SHARE = 400 / 1500;

export function stepTime({ shape, rollouts, contextTokens, passes, workers, samplers, isSequential }: StepLoad): StepTime {
  const parameters = parameterCount(shape);
  const rolloutTokens = Math.round(contextTokens * MEAN_SHARE);
  const sampledTokens = Math.round(rolloutTokens * SAMPLED_SHARE);
  const seconds = (tokens: number, { parameters: of, tokensPerSecond }: typeof TRAINING, gpus: number) =>
    (tokens * parameters) / (of * tokensPerSecond * gpus);
  const train = seconds(rollouts * rolloutTokens * passes, TRAINING, workers);
  const sample = samplers === 0 ? null : seconds(rollouts * sampledTokens, SAMPLING, samplers);
  const step = sample === null ? train : isSequential ? train + sample : Math.max(train, sample);
  return { train, sample, step, rolloutTokens, sampledTokens };
}
