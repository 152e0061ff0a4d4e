import { describe, expect, it } from 'vitest';
import { dataBatch, type DataSequence } from '../../../src/server/tinker/data-batch.ts';
import { textDatum } from '../../../src/tinker/wire/training-pass.ts';

/** `idle`: how many of its first targets have no part in the loss. */
function sequence(input: readonly number[], targetIds: readonly number[], idle: number): DataSequence {
  const isIdle = Uint8Array.from(targetIds, (_, t) => Number(t < idle));
  const ids = Int32Array.of(...input, 0);
  return { datum: textDatum(Int32Array.from(input), {}), ids, targetIds: Int32Array.from(targetIds), isIdle, place: 'data[0]' };
}

describe('dataBatch', () => {
  it('asks once what rollouts of one prompt ask alike', () => {
    const { batch, places } = dataBatch([sequence([1, 2, 3, 4], [0, 0, 4, 5], 2), sequence([1, 2, 3, 6], [0, 0, 6, 7], 2)]);
    expect([...batch.targets]).toEqual([1, 2, 3, 4, 8, 9]);
    expect([...batch.targetIds!]).toEqual([0, 0, 4, 5, 6, 7]);
    expect(places.map((each) => [...each])).toEqual([
      [0, 1, 2, 3],
      [0, 1, 4, 5],
    ]);
  });

  it('asks again for a target that has a part in the loss, that is another, or that follows other tokens', () => {
    const first = sequence([1, 2, 3], [9, 9, 9], 3);
    expect(dataBatch([first, sequence([1, 2, 3], [9, 9, 9], 0)]).batch.targets).toHaveLength(6);
    expect(dataBatch([first, sequence([1, 2, 3], [8, 9, 9], 3)]).batch.targets).toHaveLength(4);
    expect(dataBatch([first, sequence([1, 7, 3], [9, 9, 9], 3)]).batch.targets).toHaveLength(5);
    // The filler behind a shorter input is no token of it.
    expect(dataBatch([sequence([1], [9], 1), sequence([1, 0], [9, 9], 2)]).batch.targets).toHaveLength(2);
  });
});
