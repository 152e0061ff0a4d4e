/** Vectors of the tokens of a page or a query, as late-interaction models (ColPali, ColQwen3) make them, and their MaxSim. */

import { toFloat32 } from '../../files/tensor-numbers.ts';

/** All of its bits are set in infinities and NaN. */
const FLOAT16_EXPONENT = 0x7c00;

export interface TokenVectors {
  /** One for each token. */
  readonly rows: number;
  readonly dim: number;
  /** [rows, dim]; a Uint16Array holds the bits of float16, for which Node 22 has no array. */
  readonly values: Float32Array | Uint16Array;
}

export type VectorType = 'float16' | 'float32';

/** Bytes of a number. */
export const VECTOR_BYTES: Readonly<Record<VectorType, number>> = { float16: 2, float32: 4 };

/** The vectors in little-endian bytes, without a copy if they are aligned; null if a value is not finite. */
export function vectorsFrom(
  bytes: Uint8Array,
  { rows, dim, type }: { readonly rows: number; readonly dim: number; readonly type: VectorType },
): TokenVectors | null {
  const isAligned = bytes.byteOffset % VECTOR_BYTES[type] === 0;
  const { buffer, byteOffset } = isAligned ? bytes : new Uint8Array(bytes);
  const values =
    type === 'float16'
      ? new Uint16Array(buffer as ArrayBuffer, byteOffset, rows * dim)
      : new Float32Array(buffer as ArrayBuffer, byteOffset, rows * dim);
  const isFinite =
    values instanceof Float32Array ? values.every(Number.isFinite) : values.every((bits) => (bits & FLOAT16_EXPONENT) !== FLOAT16_EXPONENT);
  return isFinite ? { rows, dim, values } : null;
}

/** The numbers as Float32Array, in `scratch` if they are of another type and fit. */
export function asFloat32({ values }: TokenVectors, scratch: Float32Array): Float32Array {
  if (values instanceof Float32Array) return values;
  const target = scratch.length >= values.length ? scratch.subarray(0, values.length) : new Float32Array(values.length);
  toFloat32(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 'F16', target, values.length);
  return target;
}

/**
 * The sum over the query's tokens of their largest inner product with a token of the page, in double precision.
 * @param query [queryRows, dim]
 * @param page [pageRows, dim]
 */
export function maxSim(query: Float32Array, page: Float32Array, dim: number): number {
  const rows = query.length / dim;
  const best = new Float64Array(rows).fill(-Infinity);
  for (let p = 0; p < page.length; p += dim) {
    let row = 0;
    // Four at a time, so that a number of the page is read once for four products.
    for (; row + 3 < rows; row += 4) {
      const q = row * dim;
      let [a, b, c, d] = [0, 0, 0, 0];
      for (let i = 0; i < dim; i++) {
        const value = page[p + i]!;
        a += query[q + i]! * value;
        b += query[q + dim + i]! * value;
        c += query[q + 2 * dim + i]! * value;
        d += query[q + 3 * dim + i]! * value;
      }
      if (a > best[row]!) best[row] = a;
      if (b > best[row + 1]!) best[row + 1] = b;
      if (c > best[row + 2]!) best[row + 2] = c;
      if (d > best[row + 3]!) best[row + 3] = d;
    }
    for (; row < rows; row++) {
      let a = 0;
      for (let i = 0; i < dim; i++) a += query[row * dim + i]! * page[p + i]!;
      if (a > best[row]!) best[row] = a;
    }
  }
  return best.reduce((sum, one) => sum + one, 0);
}
