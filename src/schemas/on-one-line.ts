/** The text on one line: white space that contains a line feed or a carriage return becomes one space. Linear: one pattern for space, line feed and space is not. */
export function onOneLine(text: string): string {
  return text.replace(/\s+/g, (space) => (/[\r\n]/.test(space) ? ' ' : space));
}
