/** The part of a terminal that the commands use: a stream that keeps its input and knows the resulting screen. */
import { Writable } from 'node:stream';

// oxlint-disable-next-line no-control-regex -- escape sequences are what this is about
const PIECE = /\u001b\[(\d*)([A-Za-z])|\n|\r|[^\u001b\n\r]+/g;

export class TerminalScreen extends Writable {
  readonly isTTY = true;
  columns: number;
  text = '';
  writes = 0;

  constructor(columns: number) {
    super();
    this.columns = columns;
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    this.writes += 1;
    done();
  }

  asStream(): NodeJS.WriteStream {
    return this as unknown as NodeJS.WriteStream;
  }

  /** The lines that stand, without the empty ones at the end. Knows line feed, carriage return, cursor up, and erasing a line or all below. */
  shown(): string[] {
    const rows: string[] = [''];
    let [row, column] = [0, 0];
    const put = (text: string) => (rows[row] = (rows[row] ?? '').slice(0, column).padEnd(column) + text);
    for (const [piece, count, command] of this.text.matchAll(PIECE)) {
      if (piece === '\n') [row, column] = [row + 1, 0];
      else if (piece === '\r') column = 0;
      else if (command === 'A') row -= Number(count || 1);
      else if (command === 'K') rows[row] = count === '2' ? '' : put('');
      else if (command === 'J') rows.splice(row, Infinity, put(''));
      else if (command === undefined) {
        const after = (rows[row] ?? '').slice(column + piece.length);
        put(piece);
        column = rows[row]!.length;
        rows[row] += after;
      }
    }
    while (rows.at(-1) === '') rows.pop();
    return rows.map((text) => text ?? '');
  }
}
