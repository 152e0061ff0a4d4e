/** The frames of `python/channel.py`: a length of four bytes, then fields, each after its own length. Little-endian, UTF-8. */

const LENGTH_BYTES = 4;

export function encodeFrame(fields: readonly (string | Uint8Array)[]): Uint8Array {
  const parts = fields.map((field) => (typeof field === 'string' ? Buffer.from(field) : field));
  const body = parts.reduce((sum, part) => sum + LENGTH_BYTES + part.length, 0);
  const frame = Buffer.alloc(LENGTH_BYTES + body);
  let at = frame.writeUInt32LE(body, 0);
  for (const part of parts) {
    at = frame.writeUInt32LE(part.length, at);
    frame.set(part, at);
    at += part.length;
  }
  return frame;
}

/** The fields of a whole frame; null for bytes that are not a frame. */
export function decodeFrame(bytes: Uint8Array): Uint8Array[] | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (frameLength(bytes) !== bytes.length) return null;
  const fields: Uint8Array[] = [];
  for (let at = LENGTH_BYTES; at < bytes.length;) {
    if (at + LENGTH_BYTES > bytes.length) return null;
    const end = at + LENGTH_BYTES + view.getUint32(at, true);
    if (end > bytes.length) return null;
    fields.push(bytes.subarray(at + LENGTH_BYTES, end));
    at = end;
  }
  return fields;
}

/** The first frame in a stream whose first field is this token; null before its last byte is there. */
export function findFrame(stream: Uint8Array, token: string): Uint8Array | null {
  const start = Buffer.from(stream.buffer, stream.byteOffset, stream.length).indexOf(token) - 2 * LENGTH_BYTES;
  const length = start < 0 ? null : frameLength(stream.subarray(start));
  if (length === null || start + length > stream.length) return null;
  const frame = stream.subarray(start, start + length);
  return decodeFrame(frame) === null ? null : frame;
}

/** Length of the frame that begins here, in bytes; null before its first four bytes are there. */
function frameLength(bytes: Uint8Array): number | null {
  if (bytes.length < LENGTH_BYTES) return null;
  return LENGTH_BYTES + new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0, true);
}
