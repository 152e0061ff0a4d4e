/** What the end of a program's stderr tells of its failure. */

/** ` The last line of its stderr: no key`, or ` It threw: …` for Node; empty if there is nothing. */
export function stderrText(stderr: string): string {
  const line = tellingLine(stderr).slice(0, LONGEST_LINE);
  if (line === '') return '';
  return ` ${NODE_ENDS.test(stderr.trim()) ? 'It threw' : 'The last line of its stderr'}: ${line}`;
}

/** The last line, or the error above Node's version. */
export function tellingLine(stderr: string): string {
  const thrown = NODE_ENDS.test(stderr.trim()) ? NODE_THROWS.exec(stderr)?.[1] : undefined;
  return thrown ?? stderr.trim().split('\n').at(-1)!.trim();
}

/** All of it as the cause of an error, where `stderrText` has less. */
export function stderrCause(stderr: string): { readonly cause?: Error } {
  const said = stderr.trim();
  return said === tellingLine(stderr).slice(0, LONGEST_LINE) ? {} : { cause: new Error(`the end of its stderr:\n${said}`) };
}

const LONGEST_LINE = 300;
/** Node prints its version below an error that nobody caught. */
const NODE_ENDS = /(^|\n)Node\.js v\d[\w.-]*$/;
const NODE_THROWS = /^\[?([\w.$]*(?:Error|Exception)\b.*?)(?:\] \{)?$/m;
