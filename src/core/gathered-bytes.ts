/** Bytes that arrive in pieces, as one array. A list of the pieces would let a sender choose how much memory each byte takes: an array of one byte takes hundreds. */
export class GatheredBytes {
  #bytes = new Uint8Array(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** All bytes so far; a view, valid until the next `push`. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  push(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(length, Math.ceil(this.#bytes.length * 1.5)));
      grown.set(this.bytes);
      this.#bytes = grown;
    }
    this.#bytes.set(piece, this.#length);
    this.#length = length;
  }
}
