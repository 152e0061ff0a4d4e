/** Checks on resume whether the environment's training rows have changed. */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseJson } from '../../files/json-file.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { ifThere } from '../../files/if-there.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import type { SettingChange } from '../training-observer.ts';
import type { Dataset } from '../../core/dataset.ts';

const FILE = 'rows.json';

/** A larger data set is compared by this many evenly spaced rows. */
const MOST_COMPARED = 4096;

type OnChange = (message: string, change: SettingChange) => void;

type Rows = Readonly<Record<'rows' | 'sha256', unknown>>;

export class TrainingRows {
  readonly #train: Dataset;
  readonly #onChange: OnChange;
  #state: Rows | null = null;

  /** @param onChange gets a notice for the user. The run goes on, because the change may be a correction. */
  constructor(train: Dataset, onChange: OnChange) {
    this.#train = train;
    this.#onChange = onChange;
  }

  async saveState(directory: string): Promise<void> {
    await writeFile(join(directory, FILE), this.#text());
  }

  /** Does nothing if the checkpoint has no such file. */
  async loadState(directory: string): Promise<void> {
    const saved = await ifThere(join(directory, FILE), readRegularFile);
    if (saved === null || saved === this.#text()) return;
    const before = fieldsOf(parseJson(saved, join(directory, FILE)));
    const { rows } = before;
    this.#onChange(
      `The training rows of ${this.#train.name} have changed since the last checkpoint (${String(rows)} rows then, ${this.#train.length} now). ` +
        'The run continues with the new rows; some may come twice in this pass, and others not at all',
      { key: 'environment.rows', before: rowsText(before), after: rowsText(this.#rows()) },
    );
  }

  #text(): string {
    return JSON.stringify(this.#rows());
  }

  #rows(): Rows {
    return (this.#state ??= { rows: this.#train.length, sha256: digestOf(this.#train) });
  }
}

/** `50 with digest 0cee2717` */
function rowsText({ rows, sha256 }: Partial<Rows>): string {
  return `${String(rows)} with digest ${String(sha256).slice(0, 8)}`;
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
