/** Remembers results, so that pages of one search, and searches of a growing file, read every line once. */
import { Limiter } from '../core/limiter.ts';
import { lastUsed } from './last-used.ts';
import type { RolloutIndex } from './rollout-index.ts';
import type { RolloutTable } from './rollout-table.ts';
import { folded, searchText } from './text-search.ts';
import { ViewRequestError } from './view-problem.ts';

interface Finds {
  readonly table: RolloutTable;
  readonly rows: ReadonlySet<number>;
  /** Rows that were searched. */
  readonly searched: number;
}

const MOST_SEARCHES = 8;
const MOST_CHARACTERS = 1000;
/** A small number, because each search reads a whole file. */
const AT_ONCE = 2;

export class TextSearches {
  readonly #finds = new Map<string, Finds>();
  readonly #limiter = new Limiter(AT_ONCE);

  async find(index: RolloutIndex, table: RolloutTable, text: string, signal: AbortSignal | undefined): Promise<ReadonlySet<number>> {
    if (text.length > MOST_CHARACTERS)
      throw new ViewRequestError(400, `The text to search for is longer than ${MOST_CHARACTERS} characters. Search for a part of it.`);
    return await this.#limiter.run(() => this.#find(index, table, { text, signal }), signal ?? new AbortController().signal);
  }

  async #find(
    index: RolloutIndex,
    table: RolloutTable,
    { text, signal }: { readonly text: string; readonly signal: AbortSignal | undefined },
  ): Promise<ReadonlySet<number>> {
    const key = `${index.file.directory}\0${index.file.name}\0${folded(text)}`;
    const known = this.#finds.get(key);
    const earlier = known?.table === table ? known : null;
    if (earlier?.searched === table.count) return earlier.rows;
    const searched = table.count;
    const rows = await searchText(index, table, { text, fromRow: earlier?.searched ?? 0, signal });
    const all = earlier === null ? rows : new Set([...earlier.rows, ...rows]);
    this.#finds.delete(key);
    lastUsed(this.#finds, key, () => ({ table, rows: all, searched }));
    while (this.#finds.size > MOST_SEARCHES) this.#finds.delete(this.#finds.keys().next().value!);
    return all;
  }
}
