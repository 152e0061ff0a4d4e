/** Reads request bodies of JSON within limits of memory and time, and of what JSON.parse would make of them. */
import { GatheredBytes } from '../core/gathered-bytes.ts';
import { JsonBounds, REQUEST_LIMITS } from '../core/json-bounds.ts';
import { clientOf } from './client-of.ts';
import type { HeldBytes } from './held-bytes.ts';
import { countText } from '../core/count-text.ts';

interface UnreadBody {
  readonly ok: false;
  readonly status: 400 | 408 | 413 | 422 | 503;
  readonly detail: string;
  readonly cause?: unknown;
}

export type ReadBody = { readonly ok: true; readonly text: string } | UnreadBody;
type BodyBytes = { readonly ok: true; readonly bytes: Uint8Array } | UnreadBody;

/** 16 MiB at 5 Mbit/s. */
export const DEFAULT_BODY_TIMEOUT_MS = 30_000;

/** Time after which a body that has not arrived gives way where there is no room. One at 100 Mbit/s has arrived. */
const GIVES_WAY_MS = 1500;

/** A body that is being read. */
interface Reading {
  readonly client: string;
  readonly startMs: number;
  kept: GatheredBytes;
  /** Stops reading; null once the body has arrived. */
  stop: (() => void) | null;
}

export interface BodyBudgetOptions {
  readonly maxBodyBytes: number;
  /** Limit of bytes held by all running requests together. */
  readonly maxTotalBytes: number;
  /** The account of everything that the server holds. @default the bodies alone */
  readonly held?: HeldBytes;
  /** Time from the start of reading a body to its last byte. */
  readonly bodyTimeoutMs: number;
}

/** The body of a request before it is read. */
export interface BodySource {
  /** Who sends it, as `clientOf` tells. */
  readonly client: string;
  /** Its length by its own words; 0 if it has none. */
  readonly announced: number;
  /** Null if there is no body. */
  readonly open: () => BodyReader | null;
}

/** Such as the reader of a web stream. */
export interface BodyReader {
  read(): Promise<{ readonly done: false; readonly value: Uint8Array } | { readonly done: true }>;
  /** Rejects the read that waits. */
  releaseLock(): void;
}

export const NOT_UTF8 = 'The body is not UTF-8';
const GAVE_WAY = 'The server had no room for this body, which arrived slowly, and read another one; send it again, faster';

/** Limits the bytes that a single body and all running requests together may hold, and the time in which a body must arrive. */
export class BodyBudget {
  readonly #options: BodyBudgetOptions;
  readonly #readings = new Set<Reading>();
  #held = 0;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
  }

  /** Reads the body and passes the outcome to `use`; the bytes count as held until `use` has ended. */
  withBody<T>(request: Request, use: (body: ReadBody) => Promise<T>): Promise<T> {
    const source = {
      client: clientOf(request),
      announced: Number(request.headers.get('content-length') ?? 0),
      open: () => (request.body?.getReader() as BodyReader | undefined) ?? null,
    };
    return this.#withBytes(source, new JsonBounds(REQUEST_LIMITS), (body) => use(textOf(body)));
  }

  /** As `withBody`. The bytes are nobody else's; what JSON.parse would make of them is for `use` to bound. */
  withBytes<T>(source: BodySource, use: (body: BodyBytes) => Promise<T>): Promise<T> {
    return this.#withBytes(source, null, use);
  }

  async #withBytes<T>(source: BodySource, bounds: JsonBounds | null, use: (body: BodyBytes) => Promise<T>): Promise<T> {
    const reading: Reading = { client: source.client, startMs: performance.now(), kept: new GatheredBytes(), stop: null };
    this.#readings.add(reading);
    try {
      return await use(await this.#read(source, bounds, reading));
    } finally {
      this.#readings.delete(reading);
      this.#hold(-reading.kept.length);
    }
  }

  async #read({ announced, open }: BodySource, bounds: JsonBounds | null, reading: Reading): Promise<BodyBytes> {
    const { maxBodyBytes, bodyTimeoutMs } = this.#options;
    const tooLarge = { ok: false, status: 413, detail: `The body is larger than ${countText(maxBodyBytes)} bytes; send less at a time` } as const;
    if (announced > maxBodyBytes) return tooLarge;
    // Before anything of it is read.
    const full = this.#fullText(announced, reading);
    if (full !== null) return { ok: false, status: 503, detail: full };
    let bytes = 0;
    let excess: string | null = null;
    const reader = open();
    let isLate = false;
    let gaveWay = false;
    // Rejects the read that waits. A race with a promise would keep a reaction for each piece, so hundreds of bytes for a piece of one.
    const timer = setTimeout(() => {
      isLate = true;
      reader?.releaseLock();
    }, bodyTimeoutMs);
    reading.stop = () => {
      gaveWay = true;
      this.#hold(-reading.kept.length);
      reading.kept = new GatheredBytes();
      reading.stop = null;
      reader?.releaseLock();
    };
    try {
      for (;;) {
        const next = await reader?.read();
        if (next === undefined || next.done) break;
        bytes += next.value.length;
        if (bytes > maxBodyBytes) return tooLarge;
        excess ??= bounds?.take(next.value) ?? null;
        // The rest is read, so that the client gets its answer, but not kept.
        if (excess !== null) continue;
        if (gaveWay) break;
        reading.kept.push(next.value);
        this.#hold(next.value.length);
        const now = this.#fullText(0, reading);
        if (now !== null) return { ok: false, status: 503, detail: now };
      }
      if (gaveWay) return { ok: false, status: 503, detail: GAVE_WAY };
      if (excess !== null) return { ok: false, status: 422, detail: `The body ${excess}; send less at a time` };
      return { ok: true, bytes: reading.kept.bytes };
    } catch (cause) {
      if (gaveWay) return { ok: false, status: 503, detail: GAVE_WAY, cause };
      if (isLate) return { ok: false, status: 408, detail: `The body did not arrive within ${bodyTimeoutMs} ms; send it faster` };
      return { ok: false, status: 400, detail: 'The body ended early', cause };
    } finally {
      clearTimeout(timer);
      reader?.releaseLock();
      reading.stop = null;
    }
  }

  #hold(change: number): void {
    this.#held += change;
    this.#options.held?.hold(change);
  }

  /** The reason why that many bytes more have no room, although slow bodies of this client or of one that holds more gave way; null if they have room. */
  #fullText(more: number, reading: Reading): string | null {
    for (;;) {
      const full = this.#fullNow(more);
      const slow = full === null ? null : this.#slowest(more, reading);
      if (slow === null) return full;
      slow.stop?.();
    }
  }

  /** Of the bodies that have not arrived and began long enough ago: the first of the client whose bodies hold most. */
  #slowest(more: number, reading: Reading): Reading | null {
    const latest = performance.now() - GIVES_WAY_MS;
    const bytes = new Map<string, number>();
    for (const { client, kept } of this.#readings) bytes.set(client, (bytes.get(client) ?? 0) + kept.length);
    const own = (bytes.get(reading.client) ?? 0) + more;
    const bytesOf = ({ client }: Reading) => bytes.get(client)!;
    const slow = [...this.#readings].filter(
      (each) =>
        each !== reading &&
        each.stop !== null &&
        each.kept.length > 0 &&
        each.startMs < latest &&
        (each.client === reading.client || bytesOf(each) > own),
    );
    return slow.toSorted((a, b) => bytesOf(b) - bytesOf(a) || a.startMs - b.startMs)[0] ?? null;
  }

  #fullNow(more: number): string | null {
    const { maxTotalBytes, held } = this.#options;
    if (this.#held + more > maxTotalBytes) return 'The bodies of running requests exceed the memory limit; try again later';
    return held === undefined || held.makeRoom(more) ? null : `${held.fullText}; try again later`;
  }
}

function textOf(body: BodyBytes): ReadBody {
  if (!body.ok) return body;
  try {
    return { ok: true, text: new TextDecoder('utf-8', { fatal: true }).decode(body.bytes) };
  } catch (cause) {
    return { ok: false, status: 422, detail: NOT_UTF8, cause };
  }
}
