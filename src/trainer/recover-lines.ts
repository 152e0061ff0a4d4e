import { appendFile, truncate } from 'node:fs/promises';
import { ResultsError } from '../core/errors.ts';
import { type Line, readLines, writeError } from '../files/json-lines.ts';

interface RecoverOptions<T> {
  readonly parse: (text: string) => { readonly value: T } | { readonly problem: string };
  readonly visit: (value: T, line: Line) => void;
  /** What a line should be, for an error. */
  readonly expected: string;
  /** What to do about a line that is not. */
  readonly remedy: string;
}

/**
 * Shows `visit` every record of a file that a dying process may have left, and mends its end: a last line that was cut off goes, one that lacks
 * its line feed alone gets it. A missing file has no records. Throws ResultsError for any other line that does not parse. Needs the run's lock.
 */
export async function recoverLines<T>(path: string, { parse, visit, expected, remedy }: RecoverOptions<T>): Promise<void> {
  for await (const line of readLines(path)) {
    const parsed = parse(line.text);
    if ('value' in parsed) {
      visit(parsed.value, line);
      if (!line.isWhole) await mend(path, () => appendFile(path, '\n'));
    } else if (line.isWhole) {
      throw new ResultsError(`Expected line ${line.number} of ${path} to be ${expected}, got ${parsed.problem}: ${remedy}`);
    } else {
      await mend(path, () => truncate(path, line.start));
    }
  }
}

async function mend(path: string, change: () => Promise<void>): Promise<void> {
  try {
    await change();
  } catch (cause) {
    throw writeError(path, cause);
  }
}
