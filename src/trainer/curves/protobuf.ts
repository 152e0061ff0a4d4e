/** Writes protocol buffers: the four kinds of fields that event files and W&B's records use. A message is the concatenation of its fields. */

const VARINT = 0;
const BITS_64 = 1;
const BYTES = 2;
const BITS_32 = 5;

/** An integer from 0 to 2^53, an enum, or 0 and 1 for a boolean. */
export function varintField(field: number, value: number): Buffer {
  return Buffer.concat([tag(field, VARINT), varint(value)]);
}

export function doubleField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([tag(field, BITS_64), bytes]);
}

/** Rounds to float32. */
export function floatField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([tag(field, BITS_32), bytes]);
}

export function textField(field: number, value: string): Buffer {
  return messageField(field, Buffer.from(value, 'utf8'));
}

/** A message, or an element of a repeated one. */
export function messageField(field: number, ...fields: readonly Buffer[]): Buffer {
  const body = Buffer.concat(fields);
  return Buffer.concat([tag(field, BYTES), varint(body.length), body]);
}

function tag(field: number, kind: number): Buffer {
  return varint(field * 8 + kind);
}

function varint(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`Expected an integer from 0 to 2^53, got ${value}`);
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  return Buffer.from([...bytes, rest]);
}
