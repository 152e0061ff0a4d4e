import type { Row } from './dataset.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv, type MultiTurnOptions } from './multi-turn.ts';

/**
 * An environment with one generation per episode.
 * @example new SingleTurnEnv({ id: 'sums', eval: new Dataset('sums', rows), rubric: new Rubric({ funcs: [isRight] }) })
 */
export class SingleTurnEnv<R extends Row = Row> extends MultiTurnEnv<R> {
  constructor(options: Omit<MultiTurnOptions<R>, 'maxTurns'>) {
    super({ ...options, maxTurns: 1 });
  }

  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(): EnvResponse {
    return { done: true };
  }
}
