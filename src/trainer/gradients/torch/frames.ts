/**
 * Frames on a byte stream: the trainer's half of frames.py. Only this module knows the byte format.
 *
 * A frame: the magic `VFG1`, the lengths of header and payload as little-endian u32, the header as JSON in UTF-8, the payload. The header's
 * `arrays` lists the payload's arrays, in order and without gaps: `{name, dtype, length}`, dtype `i32` or `f32`, little-endian.
 */
import { GradientError } from '../../../core/errors.ts';

export interface Frame {
  readonly header: Readonly<Record<string, unknown>>;
  readonly arrays: FrameArrays;
}

export type FrameArrays = Readonly<Record<string, Int32Array | Float32Array>>;

interface ListedArray {
  readonly name: string;
  readonly dtype: 'i32' | 'f32';
  readonly length: number;
}

export const MAX_HEADER_BYTES = 2 ** 24;
export const MAX_PAYLOAD_BYTES = 2 ** 30;
const MAGIC = Buffer.from('VFG1', 'latin1');
const PRELUDE_BYTES = 12;
const ITEM_BYTES = 4;
/** Bytes of an invalid frame that the error quotes. */
const QUOTED_BYTES = 64;

/** Encodes one frame. Throws GradientError `bad_input` if it is too large. */
export function encodeFrame(header: Readonly<Record<string, unknown>>, arrays: FrameArrays): Buffer {
  const entries = Object.entries(arrays);
  const listed: ListedArray[] = entries.map(([name, array]) => ({ name, dtype: array instanceof Int32Array ? 'i32' : 'f32', length: array.length }));
  const head = Buffer.from(JSON.stringify({ ...header, arrays: listed }), 'utf8');
  const payloadBytes = entries.reduce((sum, [, array]) => sum + array.byteLength, 0);
  if (head.length > MAX_HEADER_BYTES || payloadBytes > MAX_PAYLOAD_BYTES) {
    const sizes = `a header of ${head.length} and a payload of ${payloadBytes} bytes`;
    throw new GradientError(`A call to the torch worker may have at most ${MAX_PAYLOAD_BYTES} bytes, got ${sizes}; send a smaller batch`, {
      code: 'bad_input',
    });
  }
  const prelude = Buffer.alloc(PRELUDE_BYTES);
  MAGIC.copy(prelude);
  prelude.writeUInt32LE(head.length, 4);
  prelude.writeUInt32LE(payloadBytes, 8);
  return Buffer.concat([prelude, head, ...entries.map(([, array]) => Buffer.from(array.buffer, array.byteOffset, array.byteLength))]);
}

/** Reassembles frames from chunks cut anywhere. Throws GradientError `lost` on bytes that are not a frame: nothing after them can be trusted. */
export class FrameDecoder {
  #chunks: Buffer[] = [];
  #held = 0;
  /** Total bytes of the current frame; null until its prelude has arrived. */
  #needed: number | null = null;

  /** Returns the frames that this chunk completed. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    const frames: Frame[] = [];
    for (;;) {
      this.#needed ??= this.#readPrelude();
      if (this.#needed === null || this.#held < this.#needed) return frames;
      const bytes = this.#joined();
      frames.push(decode(bytes.subarray(0, this.#needed)));
      const rest = bytes.subarray(this.#needed);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#held = rest.length;
      this.#needed = null;
    }
  }

  /** Bytes received of an incomplete frame. */
  get torn(): number {
    return this.#held;
  }

  #readPrelude(): number | null {
    if (this.#held === 0) return null;
    const bytes = this.#joined();
    const start = bytes.subarray(0, MAGIC.length);
    if (!start.equals(MAGIC.subarray(0, start.length))) throw notAFrame(bytes);
    if (bytes.length < PRELUDE_BYTES) return null;
    const [headerBytes, payloadBytes] = [bytes.readUInt32LE(4), bytes.readUInt32LE(8)];
    if (headerBytes > MAX_HEADER_BYTES || payloadBytes > MAX_PAYLOAD_BYTES) throw notAFrame(bytes);
    return PRELUDE_BYTES + headerBytes + payloadBytes;
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] ?? Buffer.alloc(0);
  }
}

/** A whole frame, prelude included. */
function decode(bytes: Buffer): Frame {
  const payloadStart = PRELUDE_BYTES + bytes.readUInt32LE(4);
  try {
    const { arrays, ...header } = JSON.parse(bytes.toString('utf8', PRELUDE_BYTES, payloadStart)) as { arrays: ListedArray[] };
    return { header, arrays: split(arrays, bytes.subarray(payloadStart)) };
  } catch (cause) {
    throw notAFrame(bytes, cause);
  }
}

function split(listed: readonly ListedArray[], payload: Buffer): FrameArrays {
  let at = 0;
  const arrays = listed.map(({ name, dtype, length }) => {
    const end = at + length * ITEM_BYTES;
    if (!(length >= 0) || end > payload.length) throw new RangeError(`${name} does not fit a payload of ${payload.length} bytes`);
    // A copy, because a typed array must start at a multiple of 4 and the payload may not.
    const buffer = new Uint8Array(payload.subarray(at, end)).buffer;
    at = end;
    return [name, dtype === 'i32' ? new Int32Array(buffer) : new Float32Array(buffer)] as const;
  });
  if (at !== payload.length) throw new RangeError(`the arrays take ${at} of ${payload.length} bytes`);
  return Object.fromEntries(arrays);
}

function notAFrame(bytes: Buffer, cause?: unknown): GradientError {
  const start = JSON.stringify(bytes.toString('utf8', 0, QUOTED_BYTES));
  const message = `The torch worker's stdout holds something other than frames: ${start}; find what writes there (a sitecustomize, a wrapper script?)`;
  return new GradientError(message, { code: 'lost', cause });
}
