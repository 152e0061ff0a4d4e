/** The sets of rollouts of a run, each with its file: the results of an evaluation; the evaluations and steps of a training run, compressed ones too. */
import { join, relative } from 'node:path';
import { rewardsPath } from '../trainer/records/paid-rewards.ts';
import { playedByText } from '../evaluate/training-evaluation.ts';
import { keptSteps } from '../trainer/records/kept-steps.ts';
import { advantagesPath } from '../trainer/records/step-advantages.ts';
import type { FoundRun } from './find-runs.ts';
import type { PlayedEvaluation } from './metric-file.ts';
import type { IndexedFile } from './rollout-index.ts';
import type { RolloutSet } from './view-wire.ts';

export interface SetFile {
  readonly set: RolloutSet;
  readonly file: IndexedFile;
  /** The calls of its rollouts to models other than the policy; the file may be missing. */
  readonly asked: IndexedFile;
  /** The rewards that its rollouts got later; null if none can. The file may be missing. */
  readonly rewards: IndexedFile | null;
  /** The advantages of a step of training; null for other sets. The file may be missing. */
  readonly advantages: IndexedFile | null;
}

/**
 * In order: evaluations, then steps.
 * @param played the evaluation after each step, where it is known
 */
export async function rolloutSets({ directory, kind }: FoundRun, played: ReadonlyMap<number, PlayedEvaluation>): Promise<readonly SetFile[]> {
  if (kind === 'evaluation') {
    const at = (name: string) => ({ directory, name, isPacked: false });
    const set = { id: 'results', title: 'Rollouts', kind: 'results', step: null, older: false } as const;
    return [{ set, file: at('results.jsonl'), asked: at('asked.jsonl'), rewards: null, advantages: null }];
  }
  const isOlder = (step: number) => played.get(step)?.isOlder === true;
  const titleOf = (step: number) =>
    [`Evaluation after step ${step}`, playedByText(step, played.get(step)?.version ?? null), isOlder(step) ? OLDER : ''].filter(Boolean).join(', ');
  const evaluations = await setsOf(directory, 'evaluations', (step) => ({ title: titleOf(step), older: isOlder(step) }));
  return [...evaluations, ...(await setsOf(directory, 'rollouts', (step) => ({ title: `Step ${step}`, older: false })))];
}

/** In the title of an evaluation. */
const OLDER = 'before its environment or settings changed';

type Told = Pick<RolloutSet, 'title' | 'older'>;

/** Of what stands in the place of the folder, `RunDamage` tells. */
async function setsOf(directory: string, folder: 'evaluations' | 'rollouts', tell: (step: number) => Told): Promise<SetFile[]> {
  const kind = folder === 'evaluations' ? 'evaluation' : 'step';
  const steps = await keptSteps(join(directory, folder)).catch(() => []);
  return steps.map(({ step, phase, path, kept }) => {
    const name = relative(directory, path);
    const { title, older } = tell(step);
    return {
      set: { id: `${kind}/${step}${phase === null ? '' : `/${phase}`}`, title: phase === null ? title : `${title}, ${phase}`, kind, step, older },
      file: { directory, name, isPacked: kept !== 'live' },
      // Thinned rollouts keep their calls.
      asked: {
        directory,
        name: name.replace(/\.jsonl(\.thin)?(\.gz)?$/, (_, _thin, packed: string | undefined) => `.asked.jsonl${packed ?? ''}`),
        isPacked: kept !== 'live',
      },
      rewards: { directory, name: rewardsPath(name), isPacked: kept !== 'live' },
      advantages: kind === 'step' ? { directory, name: advantagesPath(name), isPacked: kept !== 'live' } : null,
    };
  });
}
