/** Log-probs without a gradient, under the policy before an update or the policy at the start of the run. */
import { GradientError } from '../../core/errors.ts';
import type { LogProbPass } from '../credit.ts';
import type { ForwardOptions, GradientComputation } from '../gradient-backend.ts';
import { type TokenPart, tokenParts } from '../trajectory-branches.ts';
import { type MicroBatch, microBatchOf, packBatches } from './pack-batches.ts';
import type { TokenBudget } from './token-budget.ts';

export interface PassOptions {
  readonly backend: GradientComputation;
  readonly budget: TokenBudget;
  /** Sampling temperature. */
  readonly temperature: number;
  readonly signal: AbortSignal;
}

/** Log-probs of the targets of each sequence, [M_i], of all of its branches; empty if a sequence has none, NaN if they are not finite. */
export async function logProbPass(
  sequences: Parameters<LogProbPass>[0],
  adapter: ForwardOptions['adapter'],
  options: PassOptions,
): Promise<Float64Array[]> {
  const parts = sequences.map(tokenParts);
  const found = (await passOver(parts.flat(), adapter, options)).values();
  return parts.map((own) => {
    const values = own.map(() => found.next().value!);
    return values.length === 1 ? values[0]! : Float64Array.from(values.flatMap((each) => [...each]));
  });
}

async function passOver(
  sequences: readonly TokenPart[],
  adapter: ForwardOptions['adapter'],
  { backend, budget, temperature, signal }: PassOptions,
): Promise<Float64Array[]> {
  const logProbs: Float64Array[] = sequences.map(() => new Float64Array(0));
  let waiting = [...sequences.keys()].filter((place) => sequences[place]!.targets.length > 0);
  const forward = async (micro: MicroBatch): Promise<ReadonlyMap<number, Float64Array>> => {
    try {
      const packed = await backend.forward(micro.batch, { retain: false, adapter, signal });
      const own = (i: number) => Float64Array.from(packed.logProbs.subarray(micro.targetOffsets[i], micro.targetOffsets[i + 1]));
      return new Map(micro.members.map((member, i) => [member, own(i)]));
    } catch (error) {
      if (!(error instanceof GradientError) || error.code !== 'not_finite') throw error;
      const [first, second] = halves(micro.members);
      const part = (members: readonly number[]) => forward(microBatchOf(sequences, members, temperature));
      if (second.length === 0) return new Map([[first[0]!, new Float64Array(sequences[first[0]!]!.targets.length).fill(NaN)]]);
      return new Map([...(await part(first)), ...(await part(second))]);
    }
  };
  while (waiting.length > 0) {
    const done = new Set<number>();
    const remaining = waiting.map((place) => sequences[place]!);
    for (const { members } of packBatches(remaining, budget.tokens, temperature)) {
      const micro = microBatchOf(
        sequences,
        members.map((member) => waiting[member]!),
        temperature,
      );
      const packed = await budget.attempt(micro, () => forward(micro));
      if (packed === null) break;
      for (const [place, values] of packed) {
        logProbs[place] = values;
        done.add(place);
      }
    }
    waiting = waiting.filter((place) => !done.has(place));
  }
  return logProbs;
}

/** Both halves of a list; the second one of a list of one is empty. */
export function halves<T>(items: readonly T[]): readonly [T[], T[]] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)];
}
