import { styleText } from 'node:util';
import { ownStyles } from './terminal-text.ts';

/** Colours text, or returns it unchanged without colour. */
export type Paint = (style: 'bold' | 'dim' | 'cyan' | 'green' | 'yellow' | 'red', text: string) => string;

export const noPaint: Paint = (_style, text) => text;

/** Colours for text that `printable` writes to `stream`. Respects NO_COLOR, FORCE_COLOR and `plain`. */
export function paintFor(stream: NodeJS.WriteStream, options: { readonly plain: boolean }): Paint {
  // styleText also omits colour for files, dumb terminals and NO_COLOR.
  if (options.plain) return noPaint;
  return (style, text) => ownStyles(styleText(style, text, { stream }));
}
