/** Programs colour what they print, and some do wherever they print it. Messages and files get the text alone. */

/** The text without a terminal's colours, links and moves of the cursor. */
export function withoutColours(text: string): string {
  return text.includes('\u001B') ? text.replaceAll(SEQUENCE, '') : text;
}

/** Control sequences (ECMA-48: CSI), and operating system commands such as links, which end with BEL or ST. */
// oxlint-disable-next-line eslint/no-control-regex -- it is what a terminal reads
const SEQUENCE = /\u001B(?:\[[\d;:<=>?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\))/g;
