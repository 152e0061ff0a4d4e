/** Sequences of a program's arrays, packed as the engine trains them, and results unpacked again. Pure. */
import type { SequenceBatch } from '../compute/training-types.ts';
import { EngineInputError } from '../engine-errors.ts';
import { checkNames } from './given-options.ts';
import { wholeNumbers } from './token-ids.ts';

/** A sequence to score or to train on. */
export interface TokenSequence {
  /** Prompt and continuation. [T], T from 2 to the engine's `maxModelLen` */
  readonly ids: ArrayLike<number>;
  /** Indices in `ids` of the tokens whose log-probs are wanted, ascending, from 1: nothing predicts the first token. [M] @default all from 1 */
  readonly targets?: ArrayLike<number>;
}

/** Throws EngineInputError. */
export function packedSequences(sequences: readonly TokenSequence[], temperature: number): SequenceBatch {
  const packed = { ids: [] as number[], offsets: [0], targets: [] as number[] };
  for (const [i, sequence] of sequences.entries()) {
    checkNames(`Sequence ${i}`, sequence, ['ids', 'targets']);
    const ids = wholeNumbers(`The ids of sequence ${i}`, sequence.ids);
    const start = packed.ids.length;
    for (const id of ids) packed.ids.push(id);
    for (const target of targetsOf(sequence, i)) packed.targets.push(start + target);
    packed.offsets.push(packed.ids.length);
  }
  const { ids, offsets, targets } = packed;
  if (targets.length === 0) throw new EngineInputError('The sequences have no targets. At least one token must be predicted.');
  return { ids: Int32Array.from(ids), offsets: Int32Array.from(offsets), targets: Int32Array.from(targets), temperature };
}

function targetsOf({ ids, targets }: TokenSequence, i: number): Int32Array {
  if (ids.length < 2)
    throw new EngineInputError(
      `Sequence ${i} has ${ids.length === 0 ? 'no tokens' : 'one token'}, and nothing predicts its first. Pass two or more.`,
    );
  if (targets === undefined) return Int32Array.from({ length: ids.length - 1 }, (_, at) => at + 1);
  const wanted = wholeNumbers(`The targets of sequence ${i}`, targets);
  const wrong = wanted.findIndex((target, at) => target < 1 || target >= ids.length || (at > 0 && target <= wanted[at - 1]!));
  if (wrong < 0) return wanted;
  throw new EngineInputError(`The targets of sequence ${i} must ascend from 1 to ${ids.length - 1}, got ${wanted[wrong]} at index ${wrong}.`);
}

/** Numbers of all targets, divided by sequence: views, not copies. */
export function bySequence(values: Float32Array, lengths: readonly number[]): Float32Array[] {
  let end = 0;
  return lengths.map((length) => values.subarray(end, (end += length)));
}

/** The inverse of `bySequence`. Throws EngineInputError unless there is one array per sequence with one number per target. `what` is the caller's name for them. */
export function joined(what: string, parts: readonly ArrayLike<number>[], lengths: readonly number[]): Float32Array {
  if (typeof parts?.length !== 'number') throw new EngineInputError(`${what} must be a list of arrays, one per sequence, got ${typeof parts}.`);
  if (parts.length !== lengths.length)
    throw new EngineInputError(`${what} must have ${lengths.length} arrays, one per sequence, got ${parts.length}.`);
  const whole = new Float32Array(lengths.reduce((sum, length) => sum + length, 0));
  let end = 0;
  for (const [i, part] of parts.entries()) {
    if (part?.length !== lengths[i])
      throw new EngineInputError(`${what}[${i}] must have ${lengths[i]} numbers, one per target, got ${part?.length ?? typeof part}.`);
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}
