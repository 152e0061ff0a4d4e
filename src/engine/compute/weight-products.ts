/** What is computed with a matrix of the base, of whichever type it is kept. Both types give the same bits for the same numbers. */
import type { Kernels } from '../kernels/kernels.ts';
import type { WeightMatrix } from '../model/model-types.ts';
import { roundUp } from './dimensions.ts';

/** y = W x for rows with strides ldx and ldy; y is as wide as W has outputs, rounded up to a multiple of 8. */
export function multiplyWeight(kernels: Kernels, weight: WeightMatrix, x: number, ldx: number, y: number, ldy: number, rows: number): void {
  const { pointer, inputs, outputs, type } = weight;
  const width = roundUp(outputs, 8);
  if (type === 'float32') kernels.gemm(x, ldx, pointer, inputs * 8, y, ldy, rows, width, inputs, 0);
  else kernels.gemmBfloat16(x, ldx, pointer, inputs * 8, y, ldy, rows, width, inputs, 0);
}

/** Outputs `[first, first + count)`, first a multiple of 8, as float32 and as `repackTransposed` lays them out. */
export function repackWeight(kernels: Kernels, { pointer, inputs, type }: WeightMatrix, first: number, count: number, out: number): void {
  if (type === 'float32') kernels.repackTransposed(pointer, inputs, first, count, out);
  else kernels.repackTransposedBfloat16(pointer, inputs, first, count, out);
}

/** Rows of an embedding by id. `ids` int32 [rows]; `out` float32 [rows, inputs]. */
export function gatherEmbeddings(kernels: Kernels, { pointer, inputs, type }: WeightMatrix, ids: number, out: number, rows: number): void {
  if (type === 'float32') kernels.gatherRows(pointer, inputs, ids, out, inputs, rows);
  else kernels.gatherRowsBfloat16(pointer, inputs, ids, out, inputs, rows);
}
