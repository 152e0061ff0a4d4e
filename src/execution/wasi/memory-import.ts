/**
 * Rewrites a WebAssembly binary that defines its one memory, so that it imports it as `host.memory` instead. The code that creates an instance then decides the
 * limit of that instance's memory, and one compiled module serves instances with any limit.
 */

import { mappedBytes } from './mapped-bytes.ts';

const IMPORT_SECTION = 2;
const MEMORY_SECTION = 5;
const HEADER_BYTES = 8;
const MEMORY_KIND = 2;

export const MEMORY_IMPORT = { module: 'host', name: 'memory' } as const;

export interface MemoryImported {
  readonly binary: Uint8Array<ArrayBuffer>;
  /** Pages of 64 KiB that the program needs at its start. */
  readonly initialPages: number;
}

interface Section {
  readonly id: number;
  readonly start: number;
  readonly body: number;
  readonly end: number;
}

/** Throws an Error unless the binary has an import section and defines one memory. */
export function importMemory(binary: Uint8Array): MemoryImported {
  const all = sections(binary);
  const imports = all.find(({ id }) => id === IMPORT_SECTION);
  const memory = all.find(({ id }) => id === MEMORY_SECTION);
  if (imports === undefined || memory === undefined) throw new Error('The binary has no import section or defines no memory.');
  const [memories, flagsAt] = readNumber(binary, memory.body);
  if (memories !== 1) throw new Error(`The binary defines ${memories} memories, not one.`);
  const [initialPages] = readNumber(binary, flagsAt + 1);
  const [count, entriesAt] = readNumber(binary, imports.body);
  const entry = [...text(MEMORY_IMPORT.module), ...text(MEMORY_IMPORT.name), MEMORY_KIND, 0, ...number(initialPages)];
  const body = Buffer.concat([Buffer.from(number(count + 1)), binary.subarray(entriesAt, imports.end), Buffer.from(entry)]);
  const parts = all.map((section) => {
    if (section === memory) return Buffer.alloc(0);
    return section === imports
      ? Buffer.concat([Buffer.from([IMPORT_SECTION, ...number(body.length)]), body])
      : binary.subarray(section.start, section.end);
  });
  return { binary: joined([binary.subarray(0, HEADER_BYTES), ...parts]), initialPages };
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = mappedBytes(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function sections(binary: Uint8Array): Section[] {
  const found: Section[] = [];
  for (let start = HEADER_BYTES; start < binary.length;) {
    const [size, body] = readNumber(binary, start + 1);
    found.push({ id: binary[start]!, start, body, end: body + size });
    start = body + size;
  }
  return found;
}

/** An unsigned LEB128 number and the place after it. */
function readNumber(bytes: Uint8Array, at: number): [value: number, next: number] {
  let value = 0;
  for (let shift = 0, next = at; ; shift += 7) {
    const byte = bytes[next++];
    if (byte === undefined) throw new Error('The binary ends in the middle of a number.');
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value >>> 0, next];
  }
}

function number(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}

const text = (value: string): number[] => [...number(value.length), ...Buffer.from(value)];
