/** Operations on a matrix of the base model, for float32 and bfloat16. Both give the same bits for the same numbers. */
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

/** Outputs `[first, first + count)` as float32, in the layout of `repackTransposed`; `first` is a multiple of 8. */
export function repackWeight(kernels: Kernels, { pointer, inputs, type }: WeightMatrix, first: number, count: number, out: number): void {
  if (type === 'float32') kernels.repackTransposed(pointer, inputs, first, count, out);
  else kernels.repackTransposedBfloat16(pointer, inputs, first, count, out);
}

/** Rows of an embedding by id. `ids` int32 [rows]; `out` float32 [rows, inputs]. */
export function gatherEmbeddings(kernels: Kernels, { pointer, inputs, type }: WeightMatrix, ids: number, out: number, rows: number): void {
  if (type === 'float32') kernels.gatherRows(pointer, inputs, ids, out, inputs, rows);
  else kernels.gatherRowsBfloat16(pointer, inputs, ids, out, inputs, rows);
}
