/** Chooses the row that an episode plays: the requested one, else the next one, counted over all callers of this server. */
import type { ResetData } from '../../../schemas/environment-server/openenv.ts';
import type { ServedEnvironment } from '../served-environment.ts';
import { WireError } from './wire-error.ts';

export class RowOrder {
  readonly #served: Pick<ServedEnvironment, 'row' | 'rows' | 'unknownRow'>;
  #next = 0;

  constructor(served: Pick<ServedEnvironment, 'row' | 'rows' | 'unknownRow'>) {
    this.#served = served;
  }

  /** The id of the row. Throws WireError if there is no such row. */
  pick({ example_id: exampleId = null, seed = null }: ResetData): string | number {
    const { rows } = this.#served;
    if (exampleId === null) return rows.at((seed ?? this.#next) % rows.length).exampleId;
    const row = this.#served.row(exampleId);
    if (row === null) throw new WireError('VALIDATION_ERROR', `example_id: ${this.#served.unknownRow(exampleId)}`);
    return row.exampleId;
  }

  /** Called once the episode that was picked has begun. */
  begun({ example_id: exampleId = null, seed = null }: ResetData): void {
    if (exampleId === null && seed === null) this.#next += 1;
  }
}
