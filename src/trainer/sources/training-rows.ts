/** Finds out on resume whether the environment still has the training rows that the run began with. */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Dataset } from '../../core/dataset.ts';

const FILE = 'rows.json';

/** Of a larger data set, as many rows at even distances are compared. */
const MOST_COMPARED = 4096;

export class TrainingRows {
  readonly #train: Dataset;
  readonly #onChange: (message: string) => void;
  #state: string | null = null;

  /** @param onChange gets a notice for the user: the run goes on, because a changed row may be a corrected one */
  constructor(train: Dataset, onChange: (message: string) => void) {
    this.#train = train;
    this.#onChange = onChange;
  }

  async saveState(directory: string): Promise<void> {
    await writeFile(join(directory, FILE), this.#text());
  }

  /** A checkpoint without the file, of a run without rollouts, compares nothing. */
  async loadState(directory: string): Promise<void> {
    const saved = await readFile(join(directory, FILE), 'utf8').catch(() => null);
    if (saved === null || saved === this.#text()) return;
    const { rows } = JSON.parse(saved) as { readonly rows: number };
    this.#onChange(
      `The training rows of ${this.#train.name} are not those that earlier steps were sampled from: ${rows} rows then, ${this.#train.length} now, ` +
        'or other ones. The run goes on with the rows that stand in their places now, so some may come twice and others not at all in this pass',
    );
  }

  #text(): string {
    this.#state ??= JSON.stringify({ rows: this.#train.length, sha256: digestOf(this.#train) });
    return this.#state;
  }
}

function digestOf(train: Dataset): string {
  const hash = createHash('sha256');
  const compared = Math.min(train.length, MOST_COMPARED);
  for (let i = 0; i < compared; i++) {
    const { exampleId, prompt, answer, task, info } = train.at(Math.floor((i * train.length) / compared));
    hash.update(JSON.stringify([exampleId, prompt, answer, task, info]));
  }
  return hash.digest('hex');
}
