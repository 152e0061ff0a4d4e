/** Data of a pass as a batch of the gradient backend. What several data ask alike, as rollouts of one prompt do of its tokens, is computed once. */
import type { TrainingDatum } from '../../tinker/wire/training-pass.ts';
import type { PackedBatch } from '../../trainer/gradient-backend.ts';

/** A datum as a sequence: its input, and a place behind it for what follows the last token. */
export interface DataSequence {
  readonly datum: TrainingDatum;
  /** [n + 1]; nothing reads the last. */
  readonly ids: Int32Array;
  /** [n] */
  readonly targetIds: Int32Array;
  /** 1 for a target whose log-prob is wanted but not its gradient: it has no part in the loss. [n] */
  readonly isIdle: Uint8Array;
  /** Of the datum, for errors. */
  readonly place: string;
}

export interface DataBatch {
  readonly batch: PackedBatch;
  /** For each sequence and each of its targets, the index of its log-prob among those of the batch. */
  readonly places: readonly Int32Array[];
}

export function dataBatch(sequences: readonly DataSequence[]): DataBatch {
  const [ids, offsets, targets, targetIds] = [[] as number[], [0], [] as number[], [] as number[]];
  const places: Int32Array[] = [];
  for (const [i, sequence] of sequences.entries()) {
    const before = sequences[i - 1];
    const shared = before === undefined ? 0 : sharedLength(before.ids, sequence.ids);
    const start = ids.length;
    for (const id of sequence.ids) ids.push(id);
    places.push(
      sequence.targetIds.map((id, t) => {
        // The same tokens before it, and the same one asked.
        if (sequence.isIdle[t] === 1 && t < shared && before!.targetIds[t] === id) return places[i - 1]![t]!;
        targets.push(start + t + 1);
        return targetIds.push(id) - 1;
      }),
    );
    offsets.push(ids.length);
  }
  const [packedIds, packedOffsets] = [Int32Array.from(ids), Int32Array.from(offsets)];
  const batch = { ids: packedIds, offsets: packedOffsets, targets: Int32Array.from(targets), targetIds: Int32Array.from(targetIds), temperature: 1 };
  return { batch, places };
}

/** Of the inputs: the last id of each is a filler. */
function sharedLength(a: Int32Array, b: Int32Array): number {
  const most = Math.min(a.length, b.length) - 1;
  let length = 0;
  while (length < most && a[length] === b[length]) length++;
  return length;
}
