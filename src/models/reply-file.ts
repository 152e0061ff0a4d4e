/**
 * Replies on disk, a JSON line each, by the hash of their request. What was written survives the death of the process, and several runs may
 * share a file: each sees what was there when it opened it, and what it wrote itself.
 */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ConfigError, thrownText } from '../core/errors.ts';
import type { ModelReply } from '../core/model.ts';
import { LineAppender, readLines } from '../files/json-lines.ts';
import { makeFolder } from '../files/make-folder.ts';
import { ReplyLineSchema } from '../schemas/reply-line.ts';
import { parseWire } from '../schemas/results.ts';

interface Place {
  readonly start: number;
  readonly end: number;
}

export interface ReplyFileOptions {
  /** Told once, when a reply cannot be written; the file is read on. */
  readonly onNotice: (line: string) => void;
}

export class ReplyFile {
  readonly #path: string;
  readonly #places: ReadonlyMap<string, Place>;
  readonly #source: FileHandle;
  readonly #appender: LineAppender;
  readonly #onNotice: (line: string) => void;
  #endsTorn: boolean;
  #isWritable = true;

  private constructor(
    path: string,
    parts: { places: ReadonlyMap<string, Place>; endsTorn: boolean; source: FileHandle; appender: LineAppender },
    { onNotice }: ReplyFileOptions,
  ) {
    this.#path = path;
    this.#places = parts.places;
    this.#source = parts.source;
    this.#appender = parts.appender;
    this.#endsTorn = parts.endsTorn;
    this.#onNotice = onNotice;
  }

  /** Throws ConfigError when the file cannot be opened. Lines that are no replies, and one that a dying process left half written, are passed over. */
  static async open(path: string, options: ReplyFileOptions): Promise<ReplyFile> {
    try {
      makeFolder(dirname(path));
      // A device has no end to read to.
      const found = await stat(path).catch(() => null);
      if (found !== null && !found.isFile()) throw new ConfigError('it is not a regular file');
      const appender = await LineAppender.open(path);
      const places = new Map<string, Place>();
      let endsTorn = false;
      for await (const { text, start, end, isWhole } of readLines(path)) {
        endsTorn = !isWhole;
        const key = isWhole ? replyOf(text)?.key : undefined;
        if (key !== undefined) places.set(key, { start, end });
      }
      return new ReplyFile(path, { places, endsTorn, source: await open(path, 'r'), appender }, options);
    } catch (cause) {
      throw new ConfigError(`The cache of replies at ${path} cannot be opened: ${thrownText(cause)}. Name another path, or set cache to "memory".`, {
        cause,
      });
    }
  }

  /** A reply that was there when the file was opened. */
  async get(key: string): Promise<ModelReply | null> {
    const place = this.#places.get(key);
    if (place === undefined) return null;
    const bytes = Buffer.alloc(place.end - place.start);
    await this.#source.read(bytes, 0, bytes.length, place.start);
    const found = replyOf(bytes.toString('utf8'));
    // Somebody may have replaced the file's content since.
    return found?.key === key ? found.reply : null;
  }

  add(key: string, identity: string, { text, usage, finish }: ModelReply): void {
    if (!this.#isWritable) return;
    const { promptTokens, completionTokens, cachedTokens } = usage;
    const line = JSON.stringify({
      key,
      model: identity,
      finish,
      usage: { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens },
      text,
    });
    try {
      this.#appender.append(this.#endsTorn ? ['', line] : [line]);
      this.#endsTorn = false;
    } catch (error) {
      // A reply that is not kept costs a call later; one that is lost would cost it now.
      this.#isWritable = false;
      this.#onNotice(`Replies are no longer kept in ${this.#path}: ${thrownText(error)}`);
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.#source.close(), this.#appender.close()]);
  }
}

function replyOf(line: string): { readonly key: string; readonly reply: ModelReply } | null {
  const parsed = parseWire(ReplyLineSchema, line);
  // Not ours, or torn.
  if ('problem' in parsed) return null;
  const { key, text, finish, usage } = parsed.value;
  const { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens } = usage;
  return { key, reply: { text, finish, usage: { promptTokens, completionTokens, cachedTokens }, version: null } };
}
