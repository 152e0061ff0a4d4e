/** A packed batch as the data of passes at a training service, and back. */
import type { PackedBatch } from '../../gradient-backend.ts';
import { type PassOutput, textDatum, type TrainingDatum } from '../../../tinker/wire/training-pass.ts';
import { floatRow, tokenRow } from '../../../tinker/wire/wire-tensor.ts';
import { WireError } from '../../../tinker/wire/wire-error.ts';
import type { Reduction } from './calibrate-reduction.ts';

/** Bounds of a request: those of the official SDK. */
const MOST_DATA = 1024;
const MOST_BYTES = 4_500_000;
/** Of a token in protobuf: its id, its target, and two tensors of float32. */
const TOKEN_BYTES = 20;

/** One sequence. */
export interface PassSequence {
  /** [T] */
  readonly ids: Int32Array;
  /** What each id predicts: the next id, or another one at a target. [T - 1] */
  readonly next: Int32Array;
  /** Indices into `next` of the targets, ascending. [M] */
  readonly places: Int32Array;
}

export interface GradedSequence extends PassSequence {
  /** Of the targets, from the forward pass of the gradient. [M] */
  readonly logProbs: Float32Array;
  /** dLoss / dlogProb of each target. [M] */
  readonly gradient: Float32Array;
}

export function sequencesOf({ ids, offsets, targets, targetIds }: PackedBatch): PassSequence[] {
  let k = 0;
  return Array.from({ length: offsets.length - 1 }, (_, b) => {
    const [from, to] = [offsets[b]!, offsets[b + 1]!];
    const own = ids.slice(from, to);
    const next = own.slice(1);
    const places: number[] = [];
    for (; k < targets.length && targets[k]! < to; k++) {
      const place = targets[k]! - from - 1;
      if (targetIds !== undefined) next[place] = targetIds[k]!;
      places.push(place);
    }
    return { ids: own, next, places: Int32Array.from(places) };
  });
}

/** For a pass without a gradient. */
export function forwardDatum({ ids, next, places }: PassSequence): TrainingDatum {
  return textDatum(ids.slice(0, -1), { target_tokens: tokenRow(next), weights: floatRow(placed(next.length, places, () => 1)) });
}

/** What a step sends, so that the gradient of the service's loss is the given one. */
export interface GradientLoss {
  readonly lossFn: string;
  readonly data: readonly TrainingDatum[];
}

/**
 * A server that sums takes the gradient as weights of the cross entropy. One that averages would divide by the sum of these weights, whatever their signs, so it gets importance sampling at
 * ratio 1, with weights 1 at the targets, and advantages that undo its divisors. `padTo`: the number of sequences is filled up to a multiple with ones that have no gradient.
 */
export function gradientLoss(
  sequences: readonly GradedSequence[],
  { reduction, padTo }: { readonly reduction: Reduction; readonly padTo: number },
): GradientLoss {
  const count = Math.ceil(sequences.length / padTo) * padTo;
  const fill = (datum: (sequence: GradedSequence) => TrainingDatum): TrainingDatum[] => {
    const idle = datum({ ...sequences[0]!, gradient: new Float32Array(sequences[0]!.gradient.length) });
    return [...sequences.map(datum), ...Array.from({ length: count - sequences.length }, () => idle)];
  };
  if (reduction === 'sum') {
    const datum = ({ ids, next, places, gradient }: GradedSequence) =>
      textDatum(ids.slice(0, -1), { target_tokens: tokenRow(next), weights: floatRow(placed(next.length, places, (k) => -gradient[k]!)) });
    return { lossFn: 'cross_entropy', data: fill(datum) };
  }
  const datum = ({ ids, next, places, gradient, logProbs }: GradedSequence) =>
    textDatum(ids.slice(0, -1), {
      target_tokens: tokenRow(next),
      logprobs: floatRow(placed(next.length, places, (k) => logProbs[k]!)),
      advantages: floatRow(placed(next.length, places, (k) => -gradient[k]! * places.length * count)),
      weights: floatRow(placed(next.length, places, () => 1)),
    });
  return { lossFn: 'importance_sampling', data: fill(datum) };
}

/** Filled up to a multiple of `padTo`: a server that compiles for every number of sequences compiles less. */
export function padded(data: readonly TrainingDatum[], padTo: number): readonly TrainingDatum[] {
  const count = Math.ceil(data.length / padTo) * padTo;
  return [...data, ...Array.from({ length: count - data.length }, () => data[0]!)];
}

/** Parts that a request may hold. */
export function chunksOf(data: readonly TrainingDatum[]): TrainingDatum[][] {
  const chunks: TrainingDatum[][] = [];
  let bytes = Infinity;
  for (const datum of data) {
    const size = TOKEN_BYTES * datum.lossInputs['target_tokens']!.values.length;
    if (bytes + size > MOST_BYTES || chunks.at(-1)!.length === MOST_DATA) {
      chunks.push([]);
      bytes = 0;
    }
    chunks.at(-1)!.push(datum);
    bytes += size;
  }
  return chunks;
}

/** The targets' log-probs, sequence by sequence. Throws WireError for a result of another shape. */
export function logProbsOf(outputs: readonly PassOutput[], sequences: readonly PassSequence[]): Float32Array[] {
  const rows = outputs.flatMap(({ data }) => data);
  return sequences.map(({ next, places }, i) => {
    const row = rows[i]?.['logprobs']?.values;
    if (row === undefined || row.length !== next.length)
      throw new WireError(`The result of a pass has ${row?.length ?? 'no'} log-probs for sequence ${i}, which has ${next.length} targets.`);
    return Float32Array.from(places, (place) => row[place]!);
  });
}

function placed(length: number, places: Int32Array, value: (k: number) => number): Float32Array {
  const all = new Float32Array(length);
  places.forEach((place, k) => (all[place] = value(k)));
  return all;
}
