/** Rejects an invalid batch or gradient before anything runs. Pure. */
import { EngineInputError } from '../engine-errors.ts';
import type { SequenceBatch } from '../compute/training-types.ts';
import { countText } from '../../core/count-text.ts';

interface BatchLimits {
  readonly vocabularySize: number;
  /** Longest sequence, in tokens. */
  readonly maxPositions: number;
}

/** Throws EngineInputError. */
export function checkBatch(batch: SequenceBatch, { vocabularySize, maxPositions }: BatchLimits): void {
  const { ids, offsets, targets, targetIds, temperature } = batch;
  if (offsets.length < 2 || offsets[0] !== 0 || offsets.at(-1) !== ids.length || !rises(offsets)) {
    throw new EngineInputError(`Offsets must rise from 0 to the number of ids, ${ids.length}, got ${shown(offsets)}.`);
  }
  const isStrange = (id: number) => id < 0 || id >= vocabularySize;
  const wrong = ids.find(isStrange) ?? targetIds?.find(isStrange);
  if (wrong !== undefined) {
    throw new EngineInputError(`Token ids must be from 0 to ${vocabularySize - 1}, got ${wrong}. Check that the tokenizer belongs to this model.`);
  }
  const longest = offsets.reduce((most, end, i) => Math.max(most, end - (offsets[i - 1] ?? 0)), 0);
  if (longest > maxPositions) {
    throw new EngineInputError(`A sequence has ${countText(longest)} tokens, the model's limit is ${countText(maxPositions)}.`, {
      code: 'too_long',
    });
  }
  if (targets.length < 1 || targets[0]! < 1 || targets.at(-1)! >= ids.length || !rises(targets)) {
    throw new EngineInputError(`Targets must be ascending positions within the ${ids.length} ids, at least one, got ${shown(targets)}.`);
  }
  if (targetIds !== undefined && targetIds.length !== targets.length) {
    throw new EngineInputError(`Target ids must be as many as the targets, ${targets.length}, got ${targetIds.length}.`);
  }
  const starts = new Set(offsets);
  const first = targets.find((target) => starts.has(target));
  if (first !== undefined) throw new EngineInputError(`Target ${first} is the first token of a sequence, which nothing predicts.`);
  if (!(Number.isFinite(temperature) && temperature > 0)) throw new EngineInputError(`The temperature must be above 0, got ${temperature}.`);
}

/** @param name the caller's name for the gradient. Throws EngineInputError. */
export function checkGradient(name: string, gradient: Float32Array, targets: number): void {
  if (gradient.length !== targets) {
    throw new EngineInputError(`${name} must have ${targets} numbers, one per target, got ${gradient.length}.`);
  }
  if (!gradient.every(Number.isFinite)) throw new EngineInputError(`${name} contains a NaN or an infinity. Check the loss.`);
}

function rises(values: Int32Array): boolean {
  return values.every((value, i) => i === 0 || value > values[i - 1]!);
}

function shown(values: Int32Array): string {
  return `[${values.subarray(0, 8).join(', ')}${values.length > 8 ? ', ...' : ''}]`;
}
