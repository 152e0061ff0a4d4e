/**
 * Finds the tokenizer that a run used: one of the bundled models, or the one that the command names. A directory that only the run names is not opened: runs come
 * from strangers, and a tokenizer's pattern can take forever.
 */
import { installedModels } from '../data/bundled-models.ts';
import { thrownText } from '../core/errors.ts';
import { openTokenizer } from '../tokenizer/open-tokenizer.ts';
import { IncrementalText } from '../tokenizer/incremental-text.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';

/** A run's facts about its tokenizer. */
export interface UsedTokenizer {
  /** Computed as vLLM's clients do; null if the run does not say. */
  readonly hash: string | null;
  /** The model: a bundled name, or a path that ends in one. */
  readonly model: string | null;
}

export type FoundTokenizer = { readonly tokenizer: ModelTokenizer; readonly problem: null } | { readonly tokenizer: null; readonly problem: string };

interface Opened {
  readonly tokenizer: ModelTokenizer;
  readonly hash: string;
}

export interface RunTokenizersOptions {
  /** A directory with a tokenizer, for runs of models that are not bundled; null for none. */
  readonly given: string | null;
  /** The hash of a tokenizer, as runs record it. */
  readonly hashOf: (tokenizer: ModelTokenizer) => string;
}

export class RunTokenizers {
  readonly #options: RunTokenizersOptions;
  readonly #opened = new Map<string, Promise<Opened>>();

  constructor(options: RunTokenizersOptions) {
    this.#options = options;
  }

  async find({ hash, model }: UsedTokenizer): Promise<FoundTokenizer> {
    if (hash !== null) {
      for (const path of installedModels().values()) {
        const { tokenizer, hash: own } = await this.#open(path);
        if (own === hash) return { tokenizer, problem: null };
      }
    } else {
      const name = model?.split(/[/\\]/).findLast((part) => part !== '');
      const bundled = name === undefined ? undefined : installedModels().get(name);
      if (bundled !== undefined) return { tokenizer: (await this.#open(bundled)).tokenizer, problem: null };
    }
    return await this.#findGiven({ hash, model });
  }

  async #findGiven({ hash, model }: UsedTokenizer): Promise<FoundTokenizer> {
    const { given } = this.#options;
    if (given === null)
      return {
        tokenizer: null,
        problem: `Tokens show as ids, because the run's tokenizer is not that of a bundled model. Start vf-view with --tokenizer and the folder of ${model ?? 'the model'}.`,
      };
    return await this.#findIn(given, hash);
  }

  async #findIn(directory: string, hash: string | null): Promise<FoundTokenizer> {
    try {
      const { tokenizer, hash: own } = await this.#open(directory);
      if (hash === null || own === hash) return { tokenizer, problem: null };
      return {
        tokenizer: null,
        problem: `The tokenizer in ${directory} is not that of the run. Start vf-view with --tokenizer and the folder of the run's model.`,
      };
    } catch (error) {
      return { tokenizer: null, problem: thrownText(error) };
    }
  }

  #open(directory: string): Promise<Opened> {
    let opened = this.#opened.get(directory);
    if (opened === undefined) {
      opened = openTokenizer(directory).then((tokenizer) => ({
        tokenizer,
        hash: this.#options.hashOf(tokenizer),
      }));
      // The caller handles the rejection; without this, a second one would be unhandled.
      opened.catch(() => this.#opened.delete(directory));
      this.#opened.set(directory, opened);
    }
    return opened;
  }
}

/** The text that each token adds; empty for one that ends inside a character. */
export function tokenTexts(tokenizer: ModelTokenizer, ids: Iterable<number>): string[] {
  const text = new IncrementalText(tokenizer.bytes, { skipSpecialTokens: false });
  return Array.from(ids, (id) => text.push(id));
}
