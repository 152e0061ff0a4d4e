/**
 * Memory that threads share. A page that is not isolated from other sites has no SharedArrayBuffer; everything there runs in one thread, which shares with itself.
 */
export function sharedBuffer(bytes: number): ArrayBuffer | SharedArrayBuffer {
  return typeof SharedArrayBuffer === 'undefined' ? new ArrayBuffer(bytes) : new SharedArrayBuffer(bytes);
}
