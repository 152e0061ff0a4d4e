/**
 * Replies on disk, one JSON line each, by the hash of their request. Written lines survive a crash. Several runs may share a file: each finds the
 * replies that were there when it opened the file.
 */
import { type FileHandle, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ifThere } from '../files/if-there.ts';
import { openRegularFile } from '../files/regular-file.ts';
import { ConfigError, ResultsError, thrownText } from '../core/errors.ts';
import type { ModelReply } from '../core/model.ts';
import { LineAppender, readLines } from '../files/json-lines.ts';
import { makeFolder } from '../files/make-folder.ts';
import { ReplyLineSchema } from '../schemas/reply-line.ts';
import { parseWire } from '../schemas/results.ts';
import { systemText } from '../files/system-text.ts';

interface Place {
  readonly start: number;
  readonly end: number;
}

export interface ReplyFileOptions {
  /** Removes secrets from written text. @default no change */
  readonly redact?: (text: string) => string;
  /** Called once, when a reply cannot be written; reading continues. */
  readonly onNotice: (line: string) => void;
}

export class ReplyFile {
  readonly #path: string;
  readonly #places: ReadonlyMap<string, Place>;
  readonly #source: FileHandle;
  readonly #appender: LineAppender;
  readonly #onNotice: (line: string) => void;
  readonly #redact: (text: string) => string;
  #endsTorn: boolean;
  #isWritable = true;

  private constructor(
    path: string,
    parts: { places: ReadonlyMap<string, Place>; endsTorn: boolean; source: FileHandle; appender: LineAppender },
    { onNotice, redact = (text) => text }: ReplyFileOptions,
  ) {
    this.#path = path;
    this.#places = parts.places;
    this.#source = parts.source;
    this.#appender = parts.appender;
    this.#endsTorn = parts.endsTorn;
    this.#onNotice = onNotice;
    this.#redact = redact;
  }

  /** Throws ConfigError if the file cannot be opened. Skips lines that are not replies, such as one that a crash left incomplete. */
  static async open(path: string, options: ReplyFileOptions): Promise<ReplyFile> {
    try {
      makeFolder(dirname(path));
      // Reading a device might never end.
      const found = await ifThere(path, (file) => stat(file));
      if (found !== null && !found.isFile()) throw new ConfigError('it is not a regular file');
      const appender = await LineAppender.open(path);
      const places = new Map<string, Place>();
      let endsTorn = false;
      for await (const { text, start, end, isWhole } of readLines(path)) {
        endsTorn = !isWhole;
        const key = isWhole ? replyOf(text)?.key : undefined;
        if (key !== undefined) places.set(key, { start, end });
      }
      return new ReplyFile(path, { places, endsTorn, source: await openRegularFile(path), appender }, options);
    } catch (cause) {
      // The appender's own message also says that earlier lines are kept, which does not matter here.
      const why = systemText(cause instanceof ResultsError && cause.cause !== undefined ? cause.cause : cause);
      throw new ConfigError(`The reply cache at ${path} cannot be opened: ${why}. Name another path, or set cache to "memory".`, { cause });
    }
  }

  /** A reply that was in the file when it was opened; null if there was none. */
  async get(key: string): Promise<ModelReply | null> {
    const place = this.#places.get(key);
    if (place === undefined) return null;
    const bytes = Buffer.alloc(place.end - place.start);
    await this.#source.read(bytes, 0, bytes.length, place.start);
    const found = replyOf(bytes.toString('utf8'));
    // The file may have been overwritten since.
    return found?.key === key ? found.reply : null;
  }

  add(key: string, identity: string, { text, usage, finish, reasoning }: ModelReply): void {
    if (!this.#isWritable) return;
    const { promptTokens, completionTokens, cachedTokens } = usage;
    const line = JSON.stringify({
      key,
      model: identity,
      finish,
      usage: { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens },
      // A server may repeat the key that it was sent.
      text: this.#redact(text),
      ...(reasoning === undefined ? {} : { reasoning: this.#redact(reasoning) }),
    });
    try {
      this.#appender.append(this.#endsTorn ? ['', line] : [line]);
      this.#endsTorn = false;
    } catch (error) {
      // An uncached reply only costs another call later.
      this.#isWritable = false;
      this.#onNotice(`Replies are no longer cached in ${this.#path}: ${thrownText(error)}`);
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled([this.#source.close(), this.#appender.close()]);
  }
}

function replyOf(line: string): { readonly key: string; readonly reply: ModelReply } | null {
  const parsed = parseWire(ReplyLineSchema, line);
  // Written by another program, or incomplete.
  if ('problem' in parsed) return null;
  const { key, text, finish, usage, reasoning } = parsed.value;
  const { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens } = usage;
  const thoughts = reasoning === undefined ? {} : { reasoning };
  return { key, reply: { text, finish, usage: { promptTokens, completionTokens, cachedTokens }, version: null, ...thoughts } };
}
