/** An environment for the tests of the Python package: repeats what it hears until it hears `done;`. Members of a group share their rewards. */
import { Dataset, groupReward, MultiTurnEnv, Rubric } from 'vf-search';

class TalkEnv extends MultiTurnEnv {
  constructor() {
    const turns = ({ segments }) => segments.filter(({ kind }) => kind === 'model').length;
    const share = groupReward((contexts) => contexts.map((c) => turns(c) / contexts.reduce((sum, each) => sum + turns(each), 0)), { name: 'share' });
    const rows = [0, 1].map((i) => ({ exampleId: i, prompt: [{ role: 'user', content: `Talk about ${i}.` }] }));
    super({
      id: 'talk',
      train: new Dataset('talk', rows),
      eval: new Dataset('talk', rows),
      rubric: new Rubric({ funcs: [share] }),
      maxTurns: 20,
      stop: [';'],
    });
  }

  async setupState() {
    return { turns: 0 };
  }

  async envResponse(kept) {
    if (kept.includes('pause')) await new Promise((resolve) => setTimeout(resolve, 1500));
    if (kept.includes('wait')) await new Promise((resolve) => setTimeout(resolve, 60_000));
    return kept.includes('done') ? { done: true } : { observation: 'go on' };
  }
}

export const loadEnvironment = () => new TalkEnv();
