/** The log of a server that this run started: one file for all its starts, whose last lines appear in error messages. */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { withoutColours } from '../core/without-colours.ts';
import { redactUrl, secretRedactor } from '../transport/redact.ts';

/** Bytes of the end that `tail` reads. */
const TAIL_BYTES = 64 * 1024;

export class ServerLog {
  readonly path: string;
  /** Descriptor, open for appending, for the server's stdout and stderr. */
  readonly descriptor: number;
  readonly #hide: (text: string) => string;
  #startedAt = 0;

  /** Appends to an existing file. Only this user can read the log, because a server logs its requests. Throws ConfigError if it cannot be written. */
  constructor(path: string, secrets: readonly string[]) {
    this.path = path;
    const hideSecrets = secretRedactor(secrets);
    this.#hide = (text) => hideSecrets(redactUrl(text));
    try {
      this.descriptor = openSync(path, 'a+', 0o600);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      throw new ConfigError(`Could not write the server's log to ${path} (${code}). Create the folder or choose another.`, { cause });
    }
  }

  get bytes(): number {
    return fstatSync(this.descriptor).size;
  }

  /** Marks the beginning of a start; `tail` ignores earlier lines. */
  begin(title: string): void {
    this.#startedAt = this.bytes;
    writeSync(this.descriptor, `${this.#startedAt === 0 ? '' : '\n'}=== ${title}\n`);
  }

  /** The last non-empty lines, without secrets, the newest last. */
  tail(lines: number): readonly string[] {
    const size = this.bytes;
    const from = Math.max(this.#startedAt, size - TAIL_BYTES);
    const bytes = Buffer.alloc(Math.max(0, size - from));
    const read = readSync(this.descriptor, bytes, 0, bytes.length, from);
    const text = this.#hide(withoutColours(bytes.subarray(0, read).toString('utf8')));
    return text
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '' && !line.startsWith('=== '))
      .slice(-lines);
  }

  close(): void {
    closeSync(this.descriptor);
  }
}
