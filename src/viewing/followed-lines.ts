/** The lines of a file of a run, read on as it grows and from its beginning once it was replaced or cut, with what is wrong with them. */
import { openInside } from './files-inside.ts';
import { LineProblems } from './line-problems.ts';
import { type LineVisitor, MOST_LINE_BYTES, visitLines } from './line-reader.ts';
import { ReadProgress } from './read-progress.ts';

export interface IndexedFile {
  readonly directory: string;
  /** Relative to the directory. */
  readonly name: string;
  readonly isPacked: boolean;
}

export interface LineFollower extends Pick<LineVisitor, 'line'> {
  /** Called before the first line of a file that is read from its beginning. `problems` counts its lines. */
  readonly begin: (problems: LineProblems) => void;
}

export class FollowedLines {
  readonly file: IndexedFile;
  readonly #isReplaced: boolean;
  readonly #progress = new ReadProgress();
  #problems = new LineProblems();

  /** @param options.isReplaced the file never grows: another size or time is another file. @default for packed ones */
  constructor(file: IndexedFile, { isReplaced = file.isPacked } = {}) {
    this.file = file;
    this.#isReplaced = isReplaced;
  }

  get hasBegun(): boolean {
    return this.#progress.hasBegun;
  }

  /** A sentence; null without damage. @param isBeingWritten a writer is at work, so the end may be missing */
  problem(isBeingWritten: boolean): string | null {
    return this.#problems.text(this.file.name, { isBeingWritten });
  }

  /** Passes on the lines that are new. Rejects as `openInside` does, and for a packed file that cannot be unpacked; the next call then begins again. */
  async read({ begin, line }: LineFollower): Promise<'missing' | 'same' | 'read'> {
    const { directory, name, isPacked } = this.file;
    await using file = await openInside(directory, name);
    if (file === null) return 'missing';
    const isReplaced = this.#isReplaced;
    const found = await this.#progress.compare(file, { isPacked: isReplaced });
    if (found === 'same') return 'same';
    if (found === 'other') begin((this.#problems = new LineProblems()));
    const problems = this.#problems;
    const visitor: LineVisitor = {
      line: (bytes, start, end, place) => {
        problems.next();
        line(bytes, start, end, place);
      },
      tooLong: () => {
        problems.next();
        problems.leaveOut(`is longer than ${MOST_LINE_BYTES / 2 ** 20} MB`);
      },
      rest: (isWhole) => problems.cut(isWhole),
    };
    try {
      problems.cut(null);
      await this.#progress.reached(file, await visitLines(file, visitor, { name, from: this.#progress.readTo, isPacked }), { isPacked: isReplaced });
    } catch (error) {
      this.reset();
      throw error;
    }
    return 'read';
  }

  /** Forgets the file, so that the next call reads it from its beginning. */
  reset(): void {
    this.#progress.reset();
    this.#problems = new LineProblems();
  }
}
