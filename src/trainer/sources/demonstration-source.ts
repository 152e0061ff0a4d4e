/**
 * Supervised rows in passes over the data. Each pass has its own shuffled order; its last batch has the rows that are left, as in the Trainer of Hugging Face. Depends only on
 * seed and step.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseJson } from '../../files/json-file.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { ifThere } from '../../files/if-there.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { ConfigError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import type { Trajectory } from '../trajectory.ts';
import type { TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

export interface DemonstrationSourceOptions {
  /** At least one. */
  readonly rows: readonly Trajectory[];
  /** Held-out rows: a resumed run must hold out the same. @default none */
  readonly heldOut?: readonly Trajectory[];
  readonly batchSize: number;
  readonly seed: number;
}

const FILE = 'rows.json';

export class DemonstrationSource implements TrajectorySource {
  readonly #options: DemonstrationSourceOptions;
  #digest: string | null = null;
  #order: { readonly pass: number; readonly places: readonly number[] } | null = null;

  constructor(options: DemonstrationSourceOptions) {
    this.#options = options;
  }

  async take(step: number): Promise<TrajectoryBatch> {
    const { rows, batchSize } = this.#options;
    const stepsOfPass = Math.ceil(rows.length / batchSize);
    const pass = Math.floor((step - 1) / stepsOfPass);
    const first = ((step - 1) % stepsOfPass) * batchSize;
    const trajectories = this.#orderOf(pass)
      .slice(first, first + batchSize)
      .map((place, i) => {
        const row = rows[place]!;
        const at = pass * rows.length + first + i;
        // Rows of one question, and of several passes, are groups of their own.
        return { ...row, groupId: `${row.groupId}#${at}`, rolloutId: `${row.groupId}#${at}/0` };
      });
    return { trajectories };
  }

  needsPolicy(): boolean {
    return false;
  }

  async saveState(directory: string): Promise<void> {
    await writeFile(join(directory, FILE), this.#state());
  }

  /** Throws ConfigError if the rows are not those that the run began with: its passes over them could not be continued. */
  async loadState(directory: string): Promise<void> {
    const saved = await ifThere(join(directory, FILE), readRegularFile);
    if (saved === null || saved === this.#state()) return;
    const [was, is] = [saved, this.#state()].map((text) => fieldsOf(parseJson(text, join(directory, FILE))) as Partial<RowsState>);
    throw new ConfigError(
      `The supervised rows are not those that this run began with: ${countsText(was!)} then, ${countsText(is!)} now. The file or the limit ` +
        'on their length has changed (sft.max_length, else the limits of server and backend). Give the run the same rows, or start a new run.',
    );
  }

  #state(): string {
    const { rows, heldOut = [] } = this.#options;
    this.#digest ??= digestOf([...rows, ...heldOut]);
    const state: RowsState = { rows: rows.length, held_out: heldOut.length, sha256: this.#digest };
    return JSON.stringify(state);
  }

  #orderOf(pass: number): readonly number[] {
    if (this.#order?.pass !== pass) {
      const { rows, seed } = this.#options;
      const places = Random.fromSeed(seed)
        .fork(`demonstrations, pass ${pass}`)
        .shuffle([...rows.keys()]);
      this.#order = { pass, places };
    }
    return this.#order.places;
  }
}

interface RowsState {
  readonly rows: number;
  readonly held_out: number;
  readonly sha256: string;
}

function countsText({ rows, held_out: heldOut = 0, sha256 = '' }: Partial<RowsState>): string {
  return `${rows}${heldOut === 0 ? '' : ` and ${heldOut} held out`} (${sha256.slice(0, 8)})`;
}

/** A digest of everything that is learned: tokens, targets and weights. */
function digestOf(rows: readonly Trajectory[]): string {
  const hash = createHash('sha256');
  for (const { ids, targets, weights } of rows) {
    for (const values of [ids, targets, weights ?? new Float64Array(0)]) {
      hash.update(Int32Array.of(values.length));
      hash.update(values);
    }
  }
  return hash.digest('hex');
}
