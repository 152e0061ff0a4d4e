import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fillRotations } from '../../../src/engine/model/rotation-table.ts';

interface Golden {
  readonly cases: readonly {
    readonly head_dim: number;
    readonly rope_theta: number;
    readonly rows: readonly { readonly position: number; readonly values: readonly number[] }[];
  }[];
}

const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/engine/rotations.json'), 'utf8')) as Golden;

describe('fillRotations', () => {
  it.each(golden.cases)(
    'gives what transformers gives for heads of $head_dim at theta $rope_theta',
    ({ head_dim: headDim, rope_theta: ropeTheta, rows }) => {
      const table = new Float32Array((rows.at(-1)!.position + 1) * headDim);
      fillRotations(table, { headDim, ropeTheta });
      for (const { position, values } of rows) {
        for (const [i, value] of values.entries()) {
          // A power that torch rounds to the other side moves the frequency's last bit, and that times the position is the angle's error.
          const frequency = ropeTheta ** ((-2 * (i % (headDim / 2))) / headDim);
          const tolerance = 1e-7 + position * frequency * 2 ** -23;
          expect(Math.abs(table[position * headDim + i]! - value), `${i} at ${position}`).toBeLessThan(tolerance);
        }
      }
    },
  );

  it('rounds angles to float32: near and far positions agree to the last bit or two', () => {
    const [{ head_dim: headDim, rope_theta: ropeTheta, rows }] = golden.cases as [Golden['cases'][number]];
    const table = new Float32Array(2048 * headDim);
    fillRotations(table, { headDim, ropeTheta });
    const worst = Math.max(...rows.flatMap(({ position, values }) => values.map((value, i) => Math.abs(table[position * headDim + i]! - value))));
    expect(worst).toBeLessThan(1e-7);
  });
});
