/** What is wrong with the lines of one file: the first damage with its line, the number of further damaged lines, and an end that is cut off. */
import { countText } from '../core/count-text.ts';

export class LineProblems {
  #lines = 0;
  #damaged = 0;
  #lastDamaged = 0;
  #first = '';
  #end = '';

  /** Counts a line, of which the next notes are. */
  next(): void {
    this.#lines += 1;
  }

  /** Of the line that was counted last, from 1 up. */
  get line(): number {
    return this.#lines;
  }

  /** The line has a value that counts as missing. */
  note(what: string): void {
    this.#add(`in line ${this.#lines}, ${what}, so it counts as missing`);
  }

  /** The whole line is left out. @param what `is no JSON object` */
  leaveOut(what: string): void {
    this.#add(`line ${this.#lines} ${what}, so it is left out`);
  }

  /** The file ends without a line feed. @param isWhole the line lacks nothing else; null: the file has grown, and its end is to be seen */
  cut(isWhole: boolean | null): void {
    this.#end = isWhole === null ? '' : `line ${this.#lines + 1}, the last, ${isWhole ? 'lacks its line feed' : 'is cut off'}, so it is left out`;
  }

  /** A sentence; null without damage. @param isBeingWritten the end is still to come */
  text(file: string, { isBeingWritten = false } = {}): string | null {
    const more = this.#damaged - 1;
    const parts = [
      this.#first,
      more > 0 ? `${countText(more)} further ${more === 1 ? 'line is' : 'lines are'} damaged too` : '',
      isBeingWritten ? '' : this.#end,
    ].filter((part) => part !== '');
    return parts.length === 0 ? null : `${file} is damaged: ${parts.join('; ')}.`;
  }

  /** A line has one damage, its first. */
  #add(text: string): void {
    if (this.#lastDamaged === this.#lines) return;
    this.#lastDamaged = this.#lines;
    if (this.#damaged++ === 0) this.#first = text;
  }
}
