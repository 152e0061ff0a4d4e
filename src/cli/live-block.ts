/**
 * A few lines at the bottom of a terminal that are redrawn in place, with one write per redraw to avoid flicker. Permanent lines are written above
 * them. The caller provides the lines.
 */
import { stripVTControlCharacters } from 'node:util';
import type { Paint } from '../reports/text/paint.ts';
import { cellWidth, clip, escapeControls, printable } from '../reports/text/terminal-text.ts';

export interface LiveBlockOptions {
  readonly stream: NodeJS.WriteStream;
  /** Returns the current lines, each at most `columns` wide. */
  readonly draw: (columns: number) => readonly string[];
  /** Milliseconds between redraws. */
  readonly everyMs: number;
  /** Writes lines instead of a block: those of `draw` each time, and once more at the end. @default false */
  readonly plain?: boolean;
}

/** Maximum width of the block in columns; the rest of a wider terminal stays empty. */
const WIDEST = 100;
const NARROWEST = 40;

export class LiveBlock {
  readonly #options: LiveBlockOptions;
  #lines: readonly string[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor(options: LiveBlockOptions) {
    this.#options = options;
  }

  /** Draws now, unless plain, and then periodically. */
  start(): void {
    this.#timer ??= setInterval(() => this.redraw(), this.#options.everyMs).unref();
    if (this.#options.plain !== true) this.redraw();
  }

  redraw(): void {
    if (this.#options.plain !== true) this.#write('');
    else for (const line of this.#options.draw(WIDEST)) this.note(line);
  }

  /** Writes a permanent line above the block. */
  note(text: string): void {
    const line = printable(text);
    if (this.#options.plain === true) this.#options.stream.write(`${line}\n`);
    else this.#write(`${line}\x1b[K\n`);
  }

  /** Erases the block, or writes the last lines, and stops. Safe to call twice. */
  close(): void {
    if (this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.redraw();
  }

  /** In one write: moves up to the start of the block, writes the permanent text and the block, and clears everything below. */
  #write(above: string): void {
    const { stream, draw } = this.#options;
    // The last column stays free: a terminal may wrap a line that reaches it.
    const columns = Math.max(NARROWEST, Math.min(stream.columns || 80, WIDEST)) - 1;
    const lines = this.#timer === null ? [] : draw(columns).map(printable);
    if (above === '' && lines.length === this.#lines.length && lines.every((line, i) => line === this.#lines[i])) return;
    const up = rowsTaken(this.#lines, stream.columns || 80);
    stream.write(`${up === 0 ? '' : `\x1b[${up}A\r`}${above}${lines.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`);
    this.#lines = lines;
  }
}

/** Screen rows of the lines: more than one each if the terminal became narrower since they were drawn. */
function rowsTaken(lines: readonly string[], columns: number): number {
  return lines.reduce((rows, line) => rows + Math.max(1, Math.ceil(cellWidth(stripVTControlCharacters(line)) / columns)), 0);
}

interface Headed {
  readonly name: string;
  readonly done: number;
  readonly total: number;
  /** `done` and `total` as text. */
  readonly count: string;
}

/** The first line of a block: a name, a bar, a count; at most `columns` wide. */
export function barLine({ name, done, total, count }: Headed, { columns, paint }: { readonly columns: number; readonly paint: Paint }): string {
  const label = clip(escapeControls(name), Math.floor(columns / 2));
  const width = Math.max(5, columns - cellWidth(label) - count.length - 4);
  const filled = total === 0 ? width : Math.min(width, Math.floor((done / total) * width));
  return `${paint('bold', label)}  ${paint('cyan', '━'.repeat(filled))}${paint('dim', '─'.repeat(width - filled))}  ${count}`;
}
