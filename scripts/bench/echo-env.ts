/** The environment of the load on the server: repeats what it hears, until it hears `done;`. No retrieval. */
import { Dataset, type EnvResponse, type EpisodeState, MultiTurnEnv, type RewardContext, type Row, Rubric } from 'vf-search';

class EchoEnv extends MultiTurnEnv {
  constructor() {
    const rows: Row[] = Array.from({ length: 8 }, (_, exampleId) => ({
      exampleId,
      prompt: [{ role: 'user', content: `Say something about ${exampleId}.` }],
    }));
    const turns = ({ segments }: RewardContext) => segments.length;
    super({
      id: 'echo',
      eval: new Dataset('echo', rows),
      rubric: new Rubric({ funcs: [turns] }),
      maxTurns: 1000,
      turnFormat: 'continuation',
      stop: [';'],
    });
  }

  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(kept: string): EnvResponse {
    return kept.includes('done') ? { done: true } : { observation: ` you said ${kept}` };
  }
}

export function loadEnvironment(): EchoEnv {
  return new EchoEnv();
}
