/**
 * The rule for a file that has a rollout id twice: a line that repeats an earlier one word for word is left out and named in a note; any other is an error, because
 * nothing says which of the two counts.
 */
import { hash } from 'node:crypto';
import { ConfigError } from '../core/errors.ts';
import type { Line } from './json-lines.ts';

export class RolloutIds {
  readonly #path: string;
  readonly #seen = new Map<string, { readonly digest: string; readonly number: number; readonly isFinal: boolean; readonly version: number }>();
  readonly #repeated: { readonly what: string; readonly number: number; readonly first: number }[] = [];

  /** @param path the file as messages name it */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * False for a line that repeats an earlier one. Throws ConfigError for another line of the same rollout.
   * @param isFinal false for a failed rollout, which may be played again in the same file. @default true
   * @param version of the policy: another one may play the rollout again in the same file. @default one for all
   * @param branch of the rollout, in a file with a line for each. @default 0
   */
  isNew(id: string, { text, number }: Pick<Line, 'text' | 'number'>, { isFinal = true, version = 0, branch = 0 } = {}): boolean {
    const digest = hash('sha256', text, 'base64');
    const key = `${branch}\n${id}`;
    const earlier = this.#seen.get(key);
    if (earlier?.isFinal !== true || earlier.version !== version) {
      this.#seen.set(key, { digest, number, isFinal, version });
      return true;
    }
    const what = `${branch === 0 ? '' : `branch ${branch} of `}rollout ${JSON.stringify(id)}`;
    if (earlier.digest !== digest)
      throw new ConfigError(
        `Line ${number} of ${this.#path} repeats ${what} of line ${earlier.number} with other contents. Delete the line that is wrong, or restore the file.`,
      );
    this.#repeated.push({ what, number, first: earlier.number });
    return false;
  }

  /** Begins again: the lines so far do not count. */
  clear(): void {
    this.#seen.clear();
  }

  /** What was left out, as a list of one sentence; empty if nothing was. */
  get notes(): readonly string[] {
    const [one] = this.#repeated;
    if (one === undefined) return [];
    const { what, number, first } = one;
    const more = this.#repeated.length - 1;
    const others = more === 0 ? '' : `, and so ${more === 1 ? 'was 1 further line that repeats' : `were ${more} further lines that repeat`} another`;
    return [`line ${number} of ${this.#path} repeats line ${first} (${what}) and was left out${others}`];
  }
}
