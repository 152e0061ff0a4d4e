/** Bounds what decoding a pass would make of its bytes: an empty message takes two bytes, and hundreds once it is an object. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { thrownText } from '../../core/errors.ts';
import { WireError } from './wire-error.ts';

/** Messages in a pass: a datum with its chunks and tensors is about five. */
const MOST_MESSAGES = 2 ** 19;
/** A tensor has two dimensions at most. */
const MOST_SHAPE_BYTES = 64;

/** Which fields hold further messages; and which numbers are a tensor's shape. */
interface Layout {
  readonly inside: Readonly<Record<number, Layout>>;
  readonly shape?: number;
}

const TENSOR: Layout = { inside: {}, shape: 4 };
const DATUM: Layout = { inside: { 1: { inside: {} }, 2: { inside: { 2: TENSOR } } } };
const PASS: Layout = { inside: { 3: DATUM, 5: { inside: {} }, 7: { inside: {} } } };

/** Throws WireError for more messages than a pass may have, and for bytes that are none. */
export function assertBoundedPass(bytes: Uint8Array): void {
  const count = { left: MOST_MESSAGES };
  try {
    walk(bytes, PASS, count);
  } catch (cause) {
    if (cause instanceof WireError) throw cause;
    throw new WireError(`The pass is no valid protobuf message: ${thrownText(cause)}.`, { cause });
  }
}

function walk(bytes: Uint8Array, { inside, shape }: Layout, count: { left: number }): void {
  const reader = new BinaryReader(bytes);
  let shapeBytes = 0;
  while (reader.pos < reader.len) {
    if (count.left-- === 0) throw new WireError(`A pass may have ${MOST_MESSAGES} messages; send fewer data at a time.`);
    const before = reader.pos;
    const [field, type] = reader.tag();
    if (type === WireType.LengthDelimited && inside[field] !== undefined) walk(reader.bytes(), inside[field], count);
    else reader.skip(type, field);
    if (field !== shape) continue;
    shapeBytes += reader.pos - before;
    if (shapeBytes > MOST_SHAPE_BYTES) throw new WireError('A tensor of a pass has more than two dimensions.');
  }
}
