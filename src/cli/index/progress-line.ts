import type { CorpusProgress } from '../../retrieval/bm25/corpus-stream.ts';
import { countText, durationText } from '../../reports/text/number-text.ts';

/** Shows the part of the corpus that has been read: one line rewritten in place on a terminal, occasional lines elsewhere. */
export class ProgressLine {
  readonly #totalBytes: number | null;
  readonly #write: (text: string) => void;
  readonly #isTerminal = process.stderr.isTTY;
  readonly #startedAt = performance.now();
  #shownAt = performance.now();
  #isShown = false;

  /** `totalBytes`: null if unknown. */
  constructor(totalBytes: number | null, write: (text: string) => void) {
    this.#totalBytes = totalBytes;
    this.#write = write;
  }

  /** `skippedRows`: rows of an earlier run, on which this one spent no time. */
  show({ rows, bytes }: CorpusProgress, skippedRows = 0): void {
    const now = performance.now();
    if (now - this.#shownAt < (this.#isTerminal ? 100 : 5000)) return;
    this.#shownAt = now;
    const seconds = (now - this.#startedAt) / 1000;
    const total = this.#totalBytes;
    const left =
      total === null || total <= 0
        ? ''
        : `, ${Math.floor((100 * bytes) / total)} %, ${durationText((seconds * (total - bytes) * rows) / (bytes * Math.max(1, rows - skippedRows)))} left`;
    const text = `vf-index: ${countText(rows)} passages, ${countText((rows - skippedRows) / seconds)} a second${left}`;
    this.#write(this.#isTerminal ? `\r\x1b[2K${text}` : `${text}\n`);
    this.#isShown = true;
  }

  /** Clears the terminal's line. */
  end(): void {
    if (this.#isShown && this.#isTerminal) this.#write('\r\x1b[2K');
  }
}
