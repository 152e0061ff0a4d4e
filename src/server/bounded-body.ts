/** Reads request bodies within memory limits. */

export type ReadBody =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly status: 400 | 413 | 422 | 503; readonly detail: string };

/** Limits the bytes that a single body and all running requests together may hold. */
export class BodyBudget {
  readonly #maxBodyBytes: number;
  readonly #maxTotalBytes: number;
  #held = 0;

  constructor(options: { readonly maxBodyBytes: number; readonly maxTotalBytes: number }) {
    this.#maxBodyBytes = options.maxBodyBytes;
    this.#maxTotalBytes = options.maxTotalBytes;
  }

  /** Reads the body and passes the outcome to `use`; the bytes count as held until `use` has ended. */
  async withBody<T>(request: Request, use: (body: ReadBody) => Promise<T>): Promise<T> {
    const chunks: Uint8Array[] = [];
    try {
      return await use(await this.#read(request, chunks));
    } finally {
      this.#held -= sizeOf(chunks);
    }
  }

  async #read(request: Request, chunks: Uint8Array[]): Promise<ReadBody> {
    const tooLarge = { ok: false, status: 413, detail: `The body is larger than ${this.#maxBodyBytes} bytes; send fewer queries at a time` } as const;
    if (Number(request.headers.get('content-length') ?? 0) > this.#maxBodyBytes) return tooLarge;
    let bytes = 0;
    const reader = request.body?.getReader();
    try {
      for (let next = await reader?.read(); next !== undefined && !next.done; next = await reader?.read()) {
        chunks.push(next.value);
        bytes += next.value.length;
        this.#held += next.value.length;
        if (bytes > this.#maxBodyBytes) return tooLarge;
        if (this.#held > this.#maxTotalBytes) return { ok: false, status: 503, detail: 'Too many bytes are waiting; try again' };
      }
      return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)) };
    } catch (error) {
      if (error instanceof TypeError && (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
        return { ok: false, status: 422, detail: 'The body is not UTF-8' };
      return { ok: false, status: 400, detail: 'The body ended early' };
    }
  }
}

function sizeOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((bytes, chunk) => bytes + chunk.length, 0);
}
