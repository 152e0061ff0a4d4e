/** Ragged rows of numbers, as vector files list sequences, and the same concatenated. */
export type Rows = readonly (readonly number[])[];

export const offsetsOf = (rows: Rows) => Int32Array.from(rows.reduce((ends, row) => [...ends, ends.at(-1)! + row.length], [0]));
export const flat = (rows: Rows) => Float64Array.from(rows.flat());
export const maskOf = (rows: Rows) => Uint8Array.from(rows.flat());
export const rowsOf = (values: Float64Array, like: Rows): number[][] => {
  const offsets = offsetsOf(like);
  return like.map((_, i) => Array.from(values.subarray(offsets[i], offsets[i + 1])));
};
