/**
 * One pass over a safetensors file that checks that every number is finite and computes the file's sha256. Reads into one buffer while scanning the
 * other. Nothing is converted to numbers: NaN and the infinities are recognised by their exponent bits.
 */
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { DTYPE_BYTES, type SafetensorsHeader, type TensorDtype, type TensorEntry } from '../../files/safetensors.ts';

export interface TensorScan {
  /** The first tensor with NaN or an infinity, and the index of the first one in it; null if there is none. */
  readonly nonFinite: { readonly name: string; readonly index: number } | null;
  /** Of the whole file, in lower-case hex. */
  readonly sha256: string;
  /** Less than the header says if the file was truncated while it was read. */
  readonly bytesRead: number;
}

/** Large enough that a read costs little, small enough that scanning one blocks the event loop for only about a millisecond. */
const CHUNK_BYTES = 4 * 2 ** 20;

/**
 * `(x & mask) + one` carries into `sign` only if all exponent bits are set. 16-bit values are tested two at a time: no carry crosses the halves.
 */
const EXPONENTS: Readonly<Record<TensorDtype, { readonly mask: number; readonly one: number; readonly sign: number }>> = {
  F32: { mask: 0x7f800000, one: 0x00800000, sign: 0x80000000 | 0 },
  BF16: { mask: 0x7f807f80, one: 0x00800080, sign: 0x80008000 | 0 },
  F16: { mask: 0x7c007c00, one: 0x04000400, sign: 0x80008000 | 0 },
};

/** A range of the file with numbers of one type, or without any. */
interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly dtype: TensorDtype | null;
}

/** Throws the system's error, or the signal's reason. */
export async function scanTensors(file: FileHandle, header: SafetensorsHeader, signal: AbortSignal): Promise<TensorScan> {
  const chunks = stretches(header).flatMap(cut);
  const buffers = [Buffer.alloc(CHUNK_BYTES), Buffer.alloc(CHUNK_BYTES)] as const;
  const read = async (i: number) => {
    const chunk = chunks[i];
    return chunk === undefined ? 0 : (await file.read(buffers[i & 1]!, 0, chunk.end - chunk.start, chunk.start)).bytesRead;
  };
  const hash = createHash('sha256');
  let nonFinite: number | null = null;
  let bytesRead = 0;
  let next = read(0);
  try {
    for (let i = 0; i < chunks.length; i++) {
      const length = await next;
      signal.throwIfAborted();
      next = read(i + 1);
      // The next turn awaits it and rethrows; suppress the unhandled rejection until then.
      next.catch(() => {});
      const { start, dtype } = chunks[i]!;
      const bytes = buffers[i & 1]!;
      hash.update(bytes.subarray(0, length));
      bytesRead += length;
      if (nonFinite === null && dtype !== null) {
        const at = firstNonFinite(bytes, length, dtype);
        if (at !== null) nonFinite = start + at;
      }
    }
  } finally {
    await next.catch(() => {});
  }
  return { nonFinite: nonFinite === null ? null : locate(header.tensors, nonFinite), sha256: hash.digest('hex'), bytesRead };
}

/** Byte offset of the first NaN or infinity among `length` bytes of `dtype`; null if there is none. */
function firstNonFinite(bytes: Buffer, length: number, dtype: TensorDtype): number | null {
  const whole = Math.ceil(length / 4);
  // Pads an odd number of 16-bit values with a zero.
  bytes.fill(0, length, whole * 4);
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, whole);
  if (!anyCarry(words, dtype)) return null;
  const size = DTYPE_BYTES[dtype];
  for (let at = 0; at < length; at += size) {
    const value = size === 4 ? bytes.readInt32LE(at) : bytes.readUInt16LE(at);
    const exponent = EXPONENTS[dtype].mask & (size === 4 ? -1 : 0xffff);
    if ((value & exponent) === exponent) return at;
  }
  return null;
}

function anyCarry(words: Int32Array, dtype: TensorDtype): boolean {
  const { mask, one, sign } = EXPONENTS[dtype];
  let carried = 0;
  for (let i = 0; i < words.length; i++) carried |= ((words[i]! & mask) + one) | 0;
  return (carried & sign) !== 0;
}

/** The whole file in order: header, and adjacent tensors of one type merged. */
function stretches({ tensors, dataStart }: SafetensorsHeader): Stretch[] {
  const found: Stretch[] = [{ start: 0, end: dataStart, dtype: null }];
  for (const { start, end, dtype } of tensors) {
    const last = found.at(-1)!;
    if (last.dtype === dtype) found[found.length - 1] = { ...last, end };
    else if (end > start) found.push({ start, end, dtype });
  }
  return found;
}

function cut({ start, end, dtype }: Stretch): Stretch[] {
  const count = Math.ceil((end - start) / CHUNK_BYTES);
  return Array.from({ length: count }, (_, i) => ({ start: start + i * CHUNK_BYTES, end: Math.min(end, start + (i + 1) * CHUNK_BYTES), dtype }));
}

function locate(tensors: readonly TensorEntry[], at: number): { name: string; index: number } {
  const tensor = tensors.find(({ start, end }) => start <= at && at < end)!;
  return { name: tensor.name, index: (at - tensor.start) / DTYPE_BYTES[tensor.dtype] };
}
