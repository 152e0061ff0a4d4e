/** The final output of a command: sections of labelled lines, curves and next commands, fitted to a terminal. Escapes every text, unless a method says otherwise. */
import type { Row } from '../../core/dataset.ts';
import { contentText, type Message } from '../../core/message.ts';
import { countText, meanText } from './number-text.ts';
import type { Paint } from './paint.ts';
import { displayPath, type NextCommand } from './own-command.ts';
import { escapeControls, wrap } from './terminal-text.ts';
import { curveAxis, type CurvePoint, curveRows } from './curve-rows.ts';

export interface ReportView {
  /** Columns of the terminal. */
  readonly columns: number;
  readonly paint: Paint;
}

type Style = Parameters<Paint>[0];

/** Columns of a label. */
export const LABEL_WIDTH = 11;

const [NARROWEST, WIDEST] = [40, 100];
/** Values that span less are not stretched to the full height. */
const CURVE = { height: 5, leastSpan: 0.1 } as const;

export class Report {
  /** Columns to fill: those of the terminal, from 40 to 100. */
  readonly columns: number;
  readonly paint: Paint;
  readonly #sections: string[][] = [[]];

  constructor({ columns, paint }: ReportView) {
    this.columns = Math.max(NARROWEST, Math.min(columns, WIDEST));
    this.paint = paint;
  }

  /** Begins a section; an empty one is left out. */
  section(): void {
    this.#sections.push([]);
  }

  /** Adds lines that are safe to print and fit. */
  add(...lines: readonly string[]): void {
    this.#sections.at(-1)!.push(...lines);
  }

  /** A name over a rule; `state` is safe to print. */
  title(name: string, state = ''): void {
    this.add(`${this.paint('bold', escapeControls(name))}${state}`, this.paint('dim', '─'.repeat(this.columns)));
  }

  /** A label, then text wrapped next to it; nothing for null. */
  line(label: string, text: string | null, style?: Style): void {
    if (text !== null) this.safeLine(label, escapeControls(text), style);
  }

  /** As `line`, of text that is safe to print and may be painted. */
  safeLine(label: string, text: string, style: Style = 'dim'): void {
    const lines = wrap(text, this.columns - LABEL_WIDTH);
    this.add(...lines.map((line, i) => (i === 0 ? this.paint(style, label.padEnd(LABEL_WIDTH)) : ' '.repeat(LABEL_WIDTH)) + line));
  }

  /** A line for each text; the first has the label. */
  lines(label: string, texts: readonly string[]): void {
    for (const [i, text] of texts.entries()) this.line(i === 0 ? label : '', text);
  }

  /** A line for each path, never wrapped, so that it can be copied; the first has the label. */
  paths(label: string, paths: readonly (string | null | undefined)[]): void {
    const known = paths.flatMap((path) => path ?? []);
    this.add(...known.map((path, i) => this.paint('dim', (i === 0 ? label : '').padEnd(LABEL_WIDTH)) + displayPath(path)));
  }

  /** A curve from the first to the last step, with the values at the top and the bottom of its axis. */
  curve(title: string, points: readonly CurvePoint[], steps: number): void {
    const { paint } = this;
    const { height, leastSpan } = CURVE;
    const width = this.columns - LABEL_WIDTH;
    const { low, high } = curveAxis(points, leastSpan);
    const label = (row: number) => (row === 0 ? meanText(high) : row === height - 1 ? meanText(low) : '').padStart(LABEL_WIDTH - 2);
    const rows = curveRows(points, { width, height, steps, leastSpan });
    this.add(
      paint('dim', title),
      ...rows.map((line, row) => `${paint('dim', label(row))}  ${paint('green', line.trimEnd())}`.trimEnd()),
      paint('dim', `${' '.repeat(LABEL_WIDTH)}1${countText(steps).padStart(width - 1)}`),
    );
  }

  /** Suggested commands, each on a line of its own, with their purpose above. */
  next(commands: readonly NextCommand[]): void {
    for (const { why, command } of commands) {
      this.line('next', `${why}:`);
      this.add(`${' '.repeat(LABEL_WIDTH)}${this.paint('cyan', escapeControls(command))}`);
    }
  }

  text(): string {
    const sections = this.#sections.filter((lines) => lines.length > 0);
    return `${sections.map((lines) => lines.join('\n')).join('\n\n')}\n`;
  }
}

/** Facts as lines with labels of `width` columns, not wrapped. */
export function factLines(facts: readonly (readonly [label: string, text: string])[], width = LABEL_WIDTH): string[] {
  return facts.map(([label, text]) => `${label.padEnd(width)}${escapeControls(text)}`);
}

/** A heading and the messages of a row's prompt, each below its role; nothing in it acts on a terminal. */
export function promptText(what: string, { exampleId }: Pick<Row, 'exampleId'>, prompt: readonly Message[]): string {
  const messages = prompt.map(({ role, content }) => `${role}:\n${escapeControls(contentText(content), { lines: true })}`);
  return `${what} (row ${escapeControls(String(exampleId))})\n${messages.join('\n\n')}`;
}
