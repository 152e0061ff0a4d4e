/** A ZIP archive whose files are stored without compression: weights do not compress. Dates are fixed, so that the same files give the same archive. */
import type { NamedFile } from '../lab-messages.ts';

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const VERSION = 20;
/** Names are UTF-8. */
const FLAGS = 0x0800;
/** 1980-01-01, the first day of the format. */
const DATE = 0x21;

export function zipOf(files: readonly NamedFile[]): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const central: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const { name, bytes } of files) {
    const spelled = new TextEncoder().encode(name);
    // Version, flags, method, time, date, checksum, both sizes, length of the name, length of the extra field.
    const common = [
      u16(VERSION),
      u16(FLAGS),
      u16(0),
      u16(0),
      u16(DATE),
      u32(crc32(bytes)),
      u32(bytes.length),
      u32(bytes.length),
      u16(spelled.length),
      u16(0),
    ];
    const local = joined([u32(LOCAL), ...common, spelled]);
    parts.push(local, bytes);
    // The writer's version; after the common fields: comment, disk, attributes, offset.
    central.push(joined([u32(CENTRAL), u16(VERSION), ...common, u16(0), u16(0), u16(0), u32(0), u32(offset), spelled]));
    offset += local.length + bytes.length;
  }
  const directory = joined(central);
  const count = u16(files.length);
  const end = joined([u32(END), u16(0), u16(0), count, count, u32(directory.length), u32(offset), u16(0)]);
  return new Blob([...parts, directory, end], { type: 'application/zip' });
}

function u16(value: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.of(value & 255, (value >> 8) & 255);
}

function u32(value: number): Uint8Array<ArrayBuffer> {
  return joined([u16(value & 0xffff), u16((value >>> 16) & 0xffff)]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255]! ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
