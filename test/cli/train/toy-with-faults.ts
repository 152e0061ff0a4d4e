/**
 * One turn, with a reward for letters. Its argument `faults` names a file without its `.json`, which a resume must not compare: `{call, signal}` sends the signal to the process at that call of the reward, `{call}` makes an evaluation
 * throw there, `{isFlat}` makes all rewards equal.
 */
import { existsSync, readFileSync } from 'node:fs';
import { Dataset, reward, Rubric, SingleTurnEnv } from 'vf-search';

interface Fault {
  readonly call?: number;
  readonly signal?: NodeJS.Signals;
  readonly isFlat?: true;
}

const WORDS = ['river', 'mayor', 'flag', 'bridge', 'tower', 'street', 'church', 'garden'];

interface Arguments {
  readonly faults?: string;
  readonly isEvaluation?: boolean;
  readonly turnFormat?: 'chat' | 'continuation';
}

export function loadEnvironment({ faults = '', isEvaluation = false, turnFormat = 'chat' }: Arguments = {}) {
  let calls = 0;
  const letters = ({ modelText }: { readonly modelText: string }): number => {
    calls += 1;
    const path = `${faults}.json`;
    const fault: Fault = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Fault) : {};
    if (fault.call === calls && isEvaluation === (fault.signal === undefined)) {
      if (fault.signal === undefined) throw new Error('the judge of this evaluation is broken');
      process.kill(process.pid, fault.signal);
    }
    return fault.isFlat === true ? 1 : (modelText.match(/[ae]/g)?.length ?? 0) / (1 + modelText.length);
  };
  const rows = new Dataset(
    'words',
    WORDS.map((word) => ({ exampleId: word, prompt: [{ role: 'user', content: `Ask about a ${word}.` }] })),
  );
  return new SingleTurnEnv({ id: 'toy', train: rows, eval: rows, turnFormat, rubric: new Rubric({ funcs: [reward(letters, { name: 'letters' })] }) });
}
