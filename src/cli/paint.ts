import { styleText } from 'node:util';

/** Colours text; gives it back as it is where there is no colour. */
export type Paint = (style: 'bold' | 'dim' | 'cyan' | 'green' | 'yellow' | 'red', text: string) => string;

export const noPaint: Paint = (_style, text) => text;

/** Colours for what is written to `stream`: NO_COLOR, FORCE_COLOR and `plain` are respected. */
export function paintFor(stream: NodeJS.WriteStream, options: { readonly plain: boolean }): Paint {
  // Colour depth 1 is what a dumb terminal, a file and NO_COLOR have.
  if (options.plain) return noPaint;
  return (style, text) => styleText(style, text, { stream });
}
