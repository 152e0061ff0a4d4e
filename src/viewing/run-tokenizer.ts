/** The tokenizer of a run's model, where it is on this machine: of a bundled model, of a directory that the run names, or of one that the user names. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { modelPath } from '../data/bundled-models.ts';
import { openTokenizer } from '../tokenizer/open-tokenizer.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';

export class RunTokenizers {
  readonly #named: string | null;
  readonly #opened = new Map<string, Promise<ModelTokenizer | null>>();

  /** @param named a directory to use for every run; null takes the run's own */
  constructor(named: string | null) {
    this.#named = named;
  }

  /** Null where the model is not on this machine. @param model what the run calls its model: a directory, or the name of a bundled one */
  open(model: string): Promise<ModelTokenizer | null> {
    const directory = this.#named ?? modelPath(model);
    let opened = this.#opened.get(directory);
    if (opened === undefined) {
      opened = existsSync(join(directory, 'tokenizer.json')) ? openTokenizer(directory).catch(() => null) : Promise.resolve(null);
      this.#opened.set(directory, opened);
    }
    return opened;
  }
}

/** What each token adds to the text. A character whose bytes several tokens share is shown by the last of them. [T] */
export function tokenTexts(tokenizer: ModelTokenizer, ids: Iterable<number>): string[] {
  const { bytes, starts } = tokenizer.bytes;
  const decoder = new TextDecoder('utf-8');
  return Array.from(ids, (id) => (id + 1 < starts.length ? decoder.decode(bytes.slice(starts[id], starts[id + 1]), { stream: true }) : '\ufffd'));
}
