import { webAssembly } from './web-assembly.ts';

const PAGE_BYTES = 2 ** 16;

/** Returns zeroed bytes in their own pages, outside the C library's heap. */
export function mappedBytes(length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new webAssembly.Memory({ initial: Math.ceil(length / PAGE_BYTES) }).buffer, 0, length);
}
