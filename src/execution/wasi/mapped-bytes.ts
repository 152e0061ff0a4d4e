const PAGE_BYTES = 2 ** 16;

/** Returns zeroed bytes in their own pages, outside the C library's heap. */
export function mappedBytes(length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new WebAssembly.Memory({ initial: Math.ceil(length / PAGE_BYTES) }).buffer as unknown as ArrayBuffer, 0, length);
}
