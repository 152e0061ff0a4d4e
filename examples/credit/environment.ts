/** A conversation of two turns, each worth 1 by itself if it asks a question. The reward of the rollout is 1 if both do. */
import { Dataset, type EnvResponse, type EpisodeState, MultiTurnEnv, type RewardContext, type Row, Rubric } from 'vf-search';

class Asking extends MultiTurnEnv {
  protected setupState(): EpisodeState {
    return { turns: 0 };
  }

  protected envResponse(kept: string, { turns }: EpisodeState): EnvResponse {
    const reward = Number(kept.includes('?'));
    return turns === 1 ? { reward, observation: 'And more?' } : { reward, done: true };
  }
}

const asksTwice = ({ segments }: RewardContext) => Number(segments.filter(({ kind, text }) => kind === 'model' && text.includes('?')).length === 2);

const rowsOf = (words: readonly string[]): Row[] =>
  words.map((word) => ({ exampleId: word, prompt: [{ role: 'user', content: `Ask about a ${word}.` }] }));

export function loadEnvironment() {
  return new Asking({
    id: 'asking',
    train: new Dataset('asking', rowsOf(['river', 'mayor', 'flag', 'bridge'])),
    eval: new Dataset('asking-held-out', rowsOf(['tower', 'king', 'road', 'wolf', 'horse', 'paper', 'tree', 'lake'])),
    rubric: new Rubric({ funcs: [asksTwice] }),
    maxTurns: 2,
  });
}
