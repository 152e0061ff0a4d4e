/**
 * The losses that a service computes itself, as the hosted one defines them: sums over the tokens of all data. In float64, from the log-probs of the target tokens.
 */
import type { TrainingDatum, TrainingPass } from './wire/training-pass.ts';
import { WireError } from './wire/wire-error.ts';
import type { WireTensor } from './wire/wire-tensor.ts';

export interface TokenLosses {
  /** [n], per target token. */
  readonly losses: Float64Array;
  /** dLoss / dlogprob. [n] */
  readonly gradient: Float64Array;
}

/** Of one token: its loss, and the derivative of that by its log-prob. */
type TokenLoss = (logProb: number, at: number) => readonly [loss: number, gradient: number];

type Config = TrainingPass['lossConfig'];

/** Bounds of the importance ratio. */
const [CLIP_LOW, CLIP_HIGH] = [0.8, 1.2] as const;

const LOSSES: Readonly<Record<string, (inputs: Inputs, config: Config) => TokenLoss>> = {
  cross_entropy(inputs) {
    const weights = inputs.row('weights', 1);
    return (logProb, t) => [-weights(t) * logProb, -weights(t)];
  },
  importance_sampling(inputs) {
    const [old, advantages, weights] = inputs.policy();
    return (logProb, t) => {
      const gain = Math.exp(logProb - old(t)) * advantages(t) * weights(t);
      return [-gain, -gain];
    };
  },
  ppo(inputs, config) {
    const [old, advantages, weights] = inputs.policy();
    const clip = clipping(config);
    return (logProb, t) => {
      const ratio = Math.exp(logProb - old(t));
      const [free, clipped] = [ratio * advantages(t), clip(ratio) * advantages(t)];
      return free <= clipped ? [-free * weights(t), -free * weights(t)] : [-clipped * weights(t), 0];
    };
  },
  cispo(inputs, config) {
    const [old, advantages, weights] = inputs.policy();
    const clip = clipping(config);
    return (logProb, t) => {
      const gain = clip(Math.exp(logProb - old(t))) * advantages(t) * weights(t);
      return [-gain * logProb, -gain];
    };
  },
};

/**
 * The arithmetic of a loss, by the name that a pass has. Throws WireError for another name, and for a setting that the loss does not have.
 *
 * @example
 * const { losses, gradient } = builtInLoss('cross_entropy', {})(datum, logProbs, 'data[0]');
 */
export function builtInLoss(name: string, config: Config): (datum: TrainingDatum, logProbs: Float32Array, place: string) => TokenLosses {
  if (!Object.hasOwn(LOSSES, name))
    throw new WireError(
      `loss_fn must be ${Object.keys(LOSSES).join(', ')}, got ${name}. Other losses can be had by forward, and cross_entropy with weights.`,
    );
  clipping(config);
  return (datum, logProbs, place) => {
    const lossOf = LOSSES[name]!(new Inputs(datum.lossInputs, logProbs.length, place), config);
    const [losses, gradient] = [new Float64Array(logProbs.length), new Float64Array(logProbs.length)];
    for (const [t, logProb] of logProbs.entries()) [losses[t], gradient[t]] = lossOf(logProb, t) as [number, number];
    return { losses, gradient };
  };
}

/** Bounds the importance ratio. Throws WireError. */
function clipping(config: Config): (ratio: number) => number {
  const { clip_low_threshold: low = CLIP_LOW, clip_high_threshold: high = CLIP_HIGH, ...others } = config;
  const stranger = Object.keys(others)[0];
  if (stranger !== undefined)
    throw new WireError(`loss_fn_config must have no other keys than clip_low_threshold and clip_high_threshold, got ${stranger}.`);
  if (typeof low !== 'number' || typeof high !== 'number' || !(low >= 0 && low <= high))
    throw new WireError(`loss_fn_config must have clip_low_threshold from 0 to clip_high_threshold, got ${low} and ${high}.`);
  return (ratio) => Math.min(Math.max(ratio, low), high);
}

/** The tensors of a datum, as rows with a number for each target. */
class Inputs {
  readonly #tensors: TrainingDatum['lossInputs'];
  readonly #length: number;
  readonly #place: string;

  constructor(tensors: TrainingDatum['lossInputs'], length: number, place: string) {
    this.#tensors = tensors;
    this.#length = length;
    this.#place = place;
  }

  /** The sampler's log-probs, the advantages and the weights. */
  policy(): readonly [old: (t: number) => number, advantages: (t: number) => number, weights: (t: number) => number] {
    return [this.row('logprobs'), this.row('advantages'), this.row('weights', 1)];
  }

  /** Throws WireError if it is missing and has no default, or has another shape. */
  row(name: string, otherwise?: number): (t: number) => number {
    const tensor = this.#tensors[name];
    const where = `${this.#place}.loss_fn_inputs.${name}`;
    if (tensor === undefined) {
      if (otherwise === undefined) throw new WireError(`${where} is missing.`);
      return () => otherwise;
    }
    assertRow(tensor, this.#length, where);
    const strange = tensor.values.findIndex((value) => !Number.isFinite(value));
    if (strange >= 0) throw new WireError(`${where}[${strange}] must be a finite number, got ${tensor.values[strange]}.`);
    return (t) => tensor.values[t]!;
  }
}

/** Throws WireError unless the tensor is a dense row of `length` values. */
export function assertRow({ shape, sparse }: WireTensor, length: number, where: string): void {
  if (sparse === null && shape.length === 1 && shape[0] === length) return;
  throw new WireError(
    `${where} must have one value for each of the ${length} tokens of model_input, got the shape ${shape.join(' × ')}${sparse === null ? '' : ', sparse'}.`,
  );
}
