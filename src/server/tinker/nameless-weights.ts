/** Weights without a name: samplers of a session, whose folders go with it, and with the process. */
import { mkdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Samplers } from './samplers.ts';
import type { Sessions } from './sessions.ts';
import type { TrainedModel } from './trained-model.ts';

const FOLDER = '.transient';

export class NamelessWeights {
  readonly #folder: string;
  readonly #samplers: Samplers;
  readonly #sessions: Sessions;
  #saved = 0;

  /** Removes what an earlier process left in the state folder. */
  constructor(state: string, samplers: Samplers, sessions: Sessions) {
    this.#folder = join(state, FOLDER);
    this.#samplers = samplers;
    this.#sessions = sessions;
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder);
  }

  /** Saves the model's weights of now as a sampler, and returns its id. `number`: the client's, of the sampler. Rejects with TinkerRefusal (410) if the session has ended meanwhile. */
  async save(model: TrainedModel, number: number | null): Promise<string> {
    const [count, { sessionId }] = [++this.#saved, model];
    const folder = join(this.#folder, String(count));
    const id = number === null ? `${model.run.model_id}:sample-${count}` : `${sessionId}:sample:${number}`;
    try {
      mkdirSync(folder);
      await model.saveAdapter(folder);
      // Nobody would remove what is added to a session that has ended.
      this.#sessions.assertAlive(sessionId);
      await this.#samplers.add({
        id,
        sessionId,
        adapter: join(folder, 'adapter'),
        version: id,
        isCurrent: async () => true,
        modelPath: null,
        folder,
      });
      return id;
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
