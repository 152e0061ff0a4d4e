/** Splits the chunks of a corpus into lines and passages. */
import { ConfigError } from '../../core/errors.ts';
import { type CorpusRow, parseCorpusLine } from './corpus-line.ts';
import { RepeatedIds } from './repeated-ids.ts';

/** A file with longer lines is probably not JSON Lines. */
const MAX_LINE_BYTES = 2 ** 28;
const LINE_FEED = 10;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** What to do about a row that is not a passage. */
export const PASSAGE_ADVICE = 'every line must be {"id", "contents"}; other columns are named with --text, --title and --id of vf-index';

/** `start`: the line's first byte in the corpus, after a byte order mark. */
export type OnRow = (row: CorpusRow, line: Buffer, start: number) => void;

export class CorpusLines {
  rows = 0;
  readonly ids = new RepeatedIds();
  readonly #name: string;
  readonly #onRow: OnRow;
  /** Pieces of the unfinished line. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #lineStart = 0;
  #line = 0;
  #blankLine = 0;

  constructor(name: string, onRow: OnRow) {
    this.#name = name;
    this.#onRow = onRow;
  }

  /** Throws ConfigError, which names the line. */
  read(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      this.#take(chunk.subarray(start, end));
      start = end + 1;
      this.#lineStart += 1;
    }
    if (start === chunk.length) return;
    this.#pending.push(chunk.subarray(start));
    this.#pendingBytes += chunk.length - start;
    if (this.#pendingBytes > MAX_LINE_BYTES) {
      throw new ConfigError(`Line ${this.#line + 1} of ${this.#name} is longer than ${MAX_LINE_BYTES} bytes. Check that the file is JSON Lines.`);
    }
  }

  /** The last line may lack its line feed. Throws ConfigError if the corpus holds no passage. */
  end(): void {
    if (this.#pendingBytes > 0) this.#take(Buffer.alloc(0));
    if (this.rows === 0) throw new ConfigError(`${this.#name} contains no passages. A corpus has one {"id", "contents"} per line.`);
  }

  #take(lastPiece: Buffer): void {
    let line = this.#pendingBytes === 0 ? lastPiece : Buffer.concat([...this.#pending, lastPiece]);
    const start = this.#lineStart;
    this.#lineStart += line.length;
    this.#line++;
    this.#pending = [];
    this.#pendingBytes = 0;
    const skipped = this.#line === 1 && line.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
    line = line.subarray(skipped);
    if (isBlank(line)) {
      this.#blankLine ||= this.#line;
      return;
    }
    if (this.#blankLine > 0) throw new ConfigError(`${this.#name}, line ${this.#blankLine} is blank; every line must be a passage`);
    const parsed = parseCorpusLine(line);
    if (!parsed.ok) throw new ConfigError(`${this.#name}, line ${this.#line} ${parsed.problem}; ${PASSAGE_ADVICE}`);
    this.ids.add(parsed.row.id, this.rows);
    this.rows++;
    this.#onRow(parsed.row, line, start + skipped);
  }
}

function isBlank(line: Buffer): boolean {
  return line.length < 1024 && line.toString('latin1').trim() === '';
}
