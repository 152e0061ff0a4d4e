/** Tensors of the Tinker wire: float32 or int64, dense or in compressed sparse rows, as protobuf bytes or as JSON. */
import { countText } from '../../core/count-text.ts';
import type { Tensor } from './generated/tinker-public.ts';
import { WireError } from './wire-error.ts';

interface Placed {
  /** Rows first. */
  readonly shape: readonly number[];
  /** Where the values are, in a matrix of compressed sparse rows; null if every cell has one. */
  readonly sparse: SparseRows | null;
}

interface SparseRows {
  /** Where each row begins among the values, and where the last ends. [rows + 1] */
  readonly starts: Int32Array;
  /** The column of each value. */
  readonly columns: Int32Array;
}

/** Integers are kept in 32 bits: what the wire says in them are ids of tokens. */
export type WireTensor =
  | (Placed & { readonly dtype: 'float32'; readonly values: Float32Array })
  | (Placed & { readonly dtype: 'int64'; readonly values: Int32Array });

/** As JSON has it. */
export interface JsonTensor {
  readonly data: readonly number[];
  readonly dtype: 'float32' | 'int64';
  readonly shape?: readonly number[] | null;
  readonly sparse_crow_indices?: readonly number[] | null;
  readonly sparse_col_indices?: readonly number[] | null;
}

const [FLOAT32, INT64, INT32, BFLOAT16] = [1, 2, 3, 4] as const;

/** A row of numbers. [n] */
export function floatRow(values: Float32Array): WireTensor {
  return { dtype: 'float32', shape: [values.length], values, sparse: null };
}

/** A row of ids. [n] */
export function tokenRow(values: Int32Array): WireTensor {
  return { dtype: 'int64', shape: [values.length], values, sparse: null };
}

/** Throws WireError. `name`: for errors. */
export function tensorOf({ encoding, dtype, shape }: Tensor, name: string): WireTensor {
  const placed = { shape: shape.map(Number), sparse: null as SparseRows | null };
  let bytes = new Uint8Array(0);
  if (encoding.case === 'dense') bytes = encoding.value as typeof bytes;
  else if (encoding.case === 'sparseCsr') {
    const { values, crowIndices, colIndices } = encoding.value;
    bytes = values as typeof bytes;
    placed.sparse = { starts: integers(crowIndices, INT64, name), columns: integers(colIndices, INT64, name) };
  }
  const tensor: WireTensor =
    dtype === FLOAT32 || dtype === BFLOAT16
      ? { ...placed, dtype: 'float32', values: floats(bytes, dtype, name) }
      : { ...placed, dtype: 'int64', values: integers(bytes, dtype, name) };
  return checked(tensor, name);
}

export function tensorBytes({ dtype, values, shape, sparse }: WireTensor): Pick<Tensor, 'encoding' | 'dtype' | 'shape'> {
  const bytes = dtype === 'float32' ? bytesOf(values) : int64Bytes(values);
  return {
    encoding:
      sparse === null
        ? { case: 'dense', value: bytes }
        : {
            case: 'sparseCsr',
            value: {
              $typeName: 'tinker_public.SparseCsr',
              values: bytes,
              crowIndices: int64Bytes(sparse.starts),
              colIndices: int64Bytes(sparse.columns),
            },
          },
    dtype: dtype === 'float32' ? FLOAT32 : INT64,
    shape: shape.map(BigInt),
  };
}

/** Throws WireError. `name`: for errors. */
export function tensorOfJson(
  { data, dtype, shape, sparse_crow_indices: starts = null, sparse_col_indices: columns = null }: JsonTensor,
  name: string,
): WireTensor {
  const sparse = starts === null || columns === null ? null : { starts: Int32Array.from(starts), columns: Int32Array.from(columns) };
  const placed = { shape: shape ?? [data.length], sparse };
  if (dtype === 'float32') return checked({ ...placed, dtype, values: Float32Array.from(data) }, name);
  const values = Int32Array.from(data);
  const stranger = data.find((value, i) => value !== values[i]);
  if (stranger !== undefined) throw new WireError(`${name} must hold integers of 32 bits, but holds ${stranger}.`);
  return checked({ ...placed, dtype, values }, name);
}

export function tensorJson({ dtype, values, shape, sparse }: WireTensor): JsonTensor {
  const places = sparse === null ? {} : { sparse_crow_indices: [...sparse.starts], sparse_col_indices: [...sparse.columns] };
  return { data: [...values], dtype, shape: [...shape], ...places };
}

/** Throws WireError for bytes that are not a whole number of them, and for a type without floats. */
export function floats(bytes: Uint8Array, dtype: number, name: string): Float32Array {
  if (dtype === FLOAT32) return new Float32Array(whole(bytes, 4, name));
  if (dtype !== BFLOAT16) throw new WireError(`${name} must be float32, but has the type ${dtype}.`);
  // The upper half of a float32.
  const halves = new Uint16Array(whole(bytes, 2, name));
  return new Float32Array(Uint32Array.from(halves, (half) => half * 2 ** 16).buffer);
}

/** Throws WireError for bytes that are not a whole number of them, for integers beyond 32 bits, and for a type without integers. */
export function integers(bytes: Uint8Array, dtype: number, name: string): Int32Array {
  if (dtype === INT32) return new Int32Array(whole(bytes, 4, name));
  if (dtype !== INT64) throw new WireError(`${name} must be float32 or int64, but has the type ${dtype}.`);
  const halves = new Int32Array(whole(bytes, 8, name));
  // The upper half of an integer that 32 bits hold repeats the sign of the lower one.
  const values = new Int32Array(halves.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = halves[2 * i]!;
    if (halves[2 * i + 1] !== values[i]! >> 31) throw new WireError(`${name} holds an integer of more than 32 bits.`);
  }
  return values;
}

/** Little endian, as every machine that Node 24 runs on with WebAssembly's threads is. */
export function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Int32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

export function int64Bytes(values: ArrayLike<number>): Uint8Array {
  const halves = new Int32Array(values.length * 2);
  for (let i = 0; i < values.length; i++) {
    halves[2 * i] = values[i]!;
    halves[2 * i + 1] = Math.floor(values[i]! / 2 ** 32);
  }
  return bytesOf(halves);
}

/** A copy, because bytes of a message may begin anywhere. */
function whole(bytes: Uint8Array, size: number, name: string): ArrayBuffer {
  if (bytes.length % size !== 0)
    throw new WireError(`${name} has ${countText(bytes.length)} bytes, which is no whole number of values of ${size} bytes.`);
  return new Uint8Array(bytes).buffer;
}

function checked(tensor: WireTensor, name: string): WireTensor {
  const { shape, values, sparse } = tensor;
  if (shape.some((size) => !Number.isSafeInteger(size) || size < 0)) throw new WireError(`${name} has the shape ${shape.join(' × ')}.`);
  const cells = shape.reduce((product, size) => product * size, 1);
  if (sparse === null) {
    if (cells !== values.length)
      throw new WireError(`${name} has ${countText(values.length)} values, but its shape ${shape.join(' × ')} has ${countText(cells)} cells.`);
    return tensor;
  }
  const [rows = 0, columns = 0] = shape;
  const ends = sparse.starts;
  const isOrdered = ends[0] === 0 && ends.every((end, i) => i === 0 || end >= ends[i - 1]!) && ends.at(-1) === values.length;
  if (shape.length !== 2 || ends.length !== rows + 1 || !isOrdered || sparse.columns.length !== values.length)
    throw new WireError(`${name} is sparse, but its rows do not fit its shape and its values.`);
  if (sparse.columns.some((column) => column < 0 || column >= columns)) throw new WireError(`${name} has a value in a column that it does not have.`);
  return tensor;
}
