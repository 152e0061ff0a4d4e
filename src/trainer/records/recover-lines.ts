import { appendFile, truncate } from 'node:fs/promises';
import { ResultsError } from '../../core/errors.ts';
import { type Line, readLines, writeError } from '../../files/json-lines.ts';

interface RecoverOptions<T> {
  readonly parse: (text: string) => { readonly value: T } | { readonly problem: string };
  readonly visit: (value: T, line: Line) => void;
  /** The contents of a valid line, for error messages. */
  readonly expected: string;
  /** The remedy for an invalid line. */
  readonly remedy: string;
}

/**
 * Passes every record of a file to `visit` and repairs the end that a killed process may have left: removes a truncated last line, or adds a missing
 * line feed. A missing file has no records. Throws ResultsError for any other line that does not parse. Needs the run's lock.
 */
export async function recoverLines<T>(path: string, { parse, visit, expected, remedy }: RecoverOptions<T>): Promise<void> {
  for await (const line of readLines(path)) {
    const parsed = parse(line.text);
    if ('value' in parsed) {
      visit(parsed.value, line);
      if (!line.isWhole) await mend(path, () => appendFile(path, '\n'));
    } else if (line.isWhole) {
      throw new ResultsError(`Line ${line.number} of ${path} is not ${expected} (${parsed.problem}); ${remedy}`);
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
