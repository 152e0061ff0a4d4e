/** Applies adapters next to the linear layers without merging them: y += B (A x) for each run of rows with its adapter. */
import type { AdaptedName } from '../model/model-types.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { AdapterRun } from './row-plan.ts';

/** x and y are rows with strides ldx and ldy; `scratch` holds [rows, padded rank]. */
export function addLowRank(
  kernels: Kernels,
  runs: readonly AdapterRun[],
  layer: number,
  name: AdaptedName,
  x: number,
  ldx: number,
  y: number,
  ldy: number,
  scratch: number,
): void {
  for (let i = 0; i < runs.length; i++) {
    const { adapter, first, count } = runs[i]!;
    const pair = adapter.layers[layer]?.[name];
    if (pair === undefined) continue;
    const { a, b } = pair;
    const rank = adapter.paddedRank;
    kernels.gemm(x + first * ldx * 4, ldx, a.pointer, a.inputs * 8, scratch, rank, count, rank, a.inputs, 0);
    kernels.gemm(scratch, rank, b.pointer, rank * 8, y + first * ldy * 4, ldy, count, b.outputs, rank, 1);
  }
}
