import type { Paint } from './paint.ts';
import { wrap } from './terminal-text.ts';

/** Columns of a label. */
export const LABEL_WIDTH = 11;

/** A label, then text wrapped beside it, within `columns`. The text must be safe to print. */
export function labelledLines(label: string, text: string, columns: number, paint: Paint, style: Parameters<Paint>[0] = 'dim'): string[] {
  return wrap(text, columns - LABEL_WIDTH).map((line, i) => (i === 0 ? paint(style, label.padEnd(LABEL_WIDTH)) : ' '.repeat(LABEL_WIDTH)) + line);
}

/** A label, then a path on the same line, never wrapped, so that it can be copied. The text must be safe to print. */
export function labelledPath(label: string, path: string, paint: Paint): string {
  return paint('dim', label.padEnd(LABEL_WIDTH)) + path;
}
