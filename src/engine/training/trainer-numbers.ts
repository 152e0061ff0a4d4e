/**
 * Layout of a trained adapter's numbers: parameters, Adam's moments and one gradient per thread are vectors of the same layout, matrix after matrix. A step is thus
 * one loop over a vector, whatever the modules are. Pure.
 */
import { aligned } from '../compute/memory.ts';
import type { AdapterGradient } from '../compute/training-types.ts';
import type { AdaptedModule } from '../adapters/adapted-modules.ts';

/** One of a module's two row-major matrices, A [rank, inputs] or B [outputs, rank]. Offset and count are in numbers, not bytes. */
export interface MatrixPlace {
  readonly offset: number;
  readonly count: number;
}

interface ModulePlace extends AdaptedModule {
  readonly a: MatrixPlace;
  readonly b: MatrixPlace;
}

export interface NumbersLayout {
  readonly modules: readonly ModulePlace[];
  /** Length of a vector; a multiple of 16, so that adjacent vectors are aligned. Gaps between matrices stay 0. */
  readonly count: number;
}

export function layOutNumbers(modules: readonly AdaptedModule[], rank: number): NumbersLayout {
  let end = 0;
  const place = (count: number): MatrixPlace => {
    const offset = end;
    end += aligned(count * 4) / 4;
    return { offset, count };
  };
  return { modules: modules.map((module) => ({ ...module, a: place(rank * module.inputs), b: place(module.outputs * rank) })), count: end };
}

/** Addresses of the matrices within the vector at `pointer`, layer by layer. */
export function matricesAt(
  { modules }: NumbersLayout,
  { pointer, rank, layers }: { readonly pointer: number; readonly rank: number; readonly layers: number },
): AdapterGradient {
  const at = ({ offset }: MatrixPlace) => pointer + offset * 4;
  return {
    rank,
    layers: Array.from({ length: layers }, (_, layer) =>
      Object.fromEntries(modules.filter((module) => module.layer === layer).map(({ name, a, b }) => [name, { a: at(a), b: at(b) }])),
    ),
  };
}

/** Near-equal slices `[from, to)` of a vector for at most `parts` threads; their ends are multiples of 16. */
export function slices(count: number, parts: number): (readonly [number, number])[] {
  const size = Math.ceil(count / 16 / parts) * 16;
  return Array.from({ length: Math.ceil(count / size) }, (_, i) => [i * size, Math.min(count, (i + 1) * size)] as const);
}
