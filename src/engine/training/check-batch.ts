/** Refuses a batch or a gradient that is not as its interface says, before anything runs. Pure. */
import { EngineInputError } from '../engine-errors.ts';
import type { SequenceBatch } from '../compute/training-types.ts';

interface BatchLimits {
  readonly vocabularySize: number;
  /** Longest sequence, in tokens. */
  readonly maxPositions: number;
}

/** Throws EngineInputError. */
export function checkBatch(batch: SequenceBatch, { vocabularySize, maxPositions }: BatchLimits): void {
  const { ids, offsets, targets, temperature } = batch;
  if (offsets.length < 2 || offsets[0] !== 0 || offsets.at(-1) !== ids.length || !rises(offsets)) {
    throw new EngineInputError(`Expected offsets that rise from 0 to the ${ids.length} ids, got ${shown(offsets)}`);
  }
  const wrong = ids.find((id) => id < 0 || id >= vocabularySize);
  if (wrong !== undefined) {
    throw new EngineInputError(`Expected ids from 0 to ${vocabularySize - 1}, got ${wrong}; is the tokenizer another model's?`);
  }
  const longest = offsets.reduce((most, end, i) => Math.max(most, end - (offsets[i - 1] ?? 0)), 0);
  if (longest > maxPositions) {
    throw new EngineInputError(`Expected sequences of at most ${maxPositions} tokens, which is what the model knows, got ${longest}`, {
      code: 'too_long',
    });
  }
  if (targets.length < 1 || targets[0]! < 1 || targets.at(-1)! >= ids.length || !rises(targets)) {
    throw new EngineInputError(`Expected at least one target, ascending, each within the ${ids.length} ids, got ${shown(targets)}`);
  }
  const starts = new Set(offsets);
  const first = targets.find((target) => starts.has(target));
  if (first !== undefined) throw new EngineInputError(`Expected no target at the first token of a sequence, which nothing predicts, got ${first}`);
  if (!(Number.isFinite(temperature) && temperature > 0)) throw new EngineInputError(`Expected a temperature above 0, got ${temperature}`);
}

/** `name` as the caller knows it. Throws EngineInputError. */
export function checkGradient(name: string, gradient: Float32Array, targets: number): void {
  if (gradient.length !== targets) {
    throw new EngineInputError(`Expected ${targets} numbers in ${name}, one for each target, got ${gradient.length}`);
  }
  if (!gradient.every(Number.isFinite)) throw new EngineInputError(`Expected finite numbers in ${name}, got NaN or an infinity; look at the loss`);
}

function rises(values: Int32Array): boolean {
  return values.every((value, i) => i === 0 || value > values[i - 1]!);
}

function shown(values: Int32Array): string {
  return `[${values.subarray(0, 8).join(', ')}${values.length > 8 ? ', ...' : ''}]`;
}
