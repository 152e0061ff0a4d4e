/** The log of a server that this run started: one file over all its starts, and its last lines for error messages. */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { redactUrl, secretRedactor } from '../transport/redact.ts';

/** So much of the end is looked at. */
const TAIL_BYTES = 64 * 1024;

export class ServerLog {
  readonly path: string;
  /** Open for appending: the server's own stdout and stderr. */
  readonly descriptor: number;
  readonly #hide: (text: string) => string;
  #startedAt = 0;

  /** Appends to a file that is there. Throws ConfigError when it cannot be written. Readable by this user alone, for a server logs what it is asked. */
  constructor(path: string, secrets: readonly string[]) {
    this.path = path;
    const hideSecrets = secretRedactor(secrets);
    this.#hide = (text) => hideSecrets(redactUrl(text));
    try {
      this.descriptor = openSync(path, 'a+', 0o600);
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      throw new ConfigError(`Expected to write the server's log to ${path}, got ${code}; make the folder or choose another`, { cause });
    }
  }

  get bytes(): number {
    return fstatSync(this.descriptor).size;
  }

  /** Marks the place where another start begins; `tail` looks at no line before it. */
  begin(title: string): void {
    this.#startedAt = this.bytes;
    writeSync(this.descriptor, `${this.#startedAt === 0 ? '' : '\n'}=== ${title}\n`);
  }

  /** The last lines that are not empty, secrets out, the newest last. */
  tail(lines: number): readonly string[] {
    const size = this.bytes;
    const from = Math.max(this.#startedAt, size - TAIL_BYTES);
    const bytes = Buffer.alloc(Math.max(0, size - from));
    const read = readSync(this.descriptor, bytes, 0, bytes.length, from);
    const text = this.#hide(bytes.subarray(0, read).toString('utf8'));
    return text
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '' && !line.startsWith('=== '))
      .slice(-lines);
  }

  close(): void {
    closeSync(this.descriptor);
  }
}
