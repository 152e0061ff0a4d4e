/** Reads request bodies within limits of memory and time. */

export type ReadBody =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly status: 400 | 408 | 413 | 422 | 503; readonly detail: string; readonly cause?: unknown };

/** 16 MiB at 5 Mbit/s. */
export const DEFAULT_BODY_TIMEOUT_MS = 30_000;

export interface BodyBudgetOptions {
  readonly maxBodyBytes: number;
  /** Limit of bytes held by all running requests together. */
  readonly maxTotalBytes: number;
  /** Time from the start of reading a body to its last byte. */
  readonly bodyTimeoutMs: number;
}

/** Limits the bytes that a single body and all running requests together may hold, and the time in which a body must arrive. */
export class BodyBudget {
  readonly #options: BodyBudgetOptions;
  #held = 0;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
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
    const { maxBodyBytes, maxTotalBytes, bodyTimeoutMs } = this.#options;
    const tooLarge = { ok: false, status: 413, detail: `The body is larger than ${maxBodyBytes} bytes; send less at a time` } as const;
    if (Number(request.headers.get('content-length') ?? 0) > maxBodyBytes) return tooLarge;
    let bytes = 0;
    const reader = request.body?.getReader();
    const late = Promise.withResolvers<'late'>();
    const timer = setTimeout(() => late.resolve('late'), bodyTimeoutMs);
    try {
      for (;;) {
        const next = await Promise.race([reader?.read(), late.promise]);
        if (next === 'late') return { ok: false, status: 408, detail: `The body did not arrive within ${bodyTimeoutMs} ms; send it faster` };
        if (next === undefined || next.done) break;
        chunks.push(next.value);
        bytes += next.value.length;
        this.#held += next.value.length;
        if (bytes > maxBodyBytes) return tooLarge;
        if (this.#held > maxTotalBytes)
          return { ok: false, status: 503, detail: 'The bodies of running requests exceed the memory limit; try again later' };
      }
      return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)) };
    } catch (cause) {
      if (cause instanceof TypeError && (cause as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
        return { ok: false, status: 422, detail: 'The body is not UTF-8', cause };
      return { ok: false, status: 400, detail: 'The body ended early', cause };
    } finally {
      clearTimeout(timer);
    }
  }
}

function sizeOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((bytes, chunk) => bytes + chunk.length, 0);
}
