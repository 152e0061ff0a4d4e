/** A pass over training data, and what it gives: the wire's `forward` and `forward_backward`, whichever way they are said. */
import type { WireTensor } from './wire-tensor.ts';

/** A part of a datum's input. What images and sounds hold is nobody's business here. */
export type InputChunk = { readonly kind: 'text'; readonly tokens: Int32Array } | { readonly kind: 'image' } | { readonly kind: 'audio' };

export interface TrainingDatum {
  readonly input: readonly InputChunk[];
  /** `target_tokens`, `weights`, `logprobs`, `advantages`, ... */
  readonly lossInputs: Readonly<Record<string, WireTensor>>;
}

export interface TrainingPass {
  readonly modelId: string;
  /** Counts the model's requests from 1. */
  readonly seqId: number;
  /** `cross_entropy`, `importance_sampling`, `ppo`, ... */
  readonly lossFn: string;
  readonly lossConfig: Readonly<Record<string, number | string>>;
  /** Nothing is added to the gradient. */
  readonly isForwardOnly: boolean;
  readonly data: readonly TrainingDatum[];
}

export interface PassOutput {
  /** One per datum: `logprobs`, `elementwise_loss`. */
  readonly data: readonly Readonly<Record<string, WireTensor>>[];
  /** Their names end in how chunks of a request are joined: `loss:sum`. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** A datum of text alone. */
export function textDatum(tokens: Int32Array, lossInputs: TrainingDatum['lossInputs']): TrainingDatum {
  return { input: [{ kind: 'text', tokens }], lossInputs };
}
