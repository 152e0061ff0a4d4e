/** Which branches of a rollout are trained on (`algorithm.branches`), and the sequences that they become (`algorithm.branch_weight`). */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TrainingSequence } from '../credit.ts';
import { type BranchPlace, branchPlaces, sequencesOf } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';

type Algorithm = Pick<TrainingConfig['algorithm'], 'branches' | 'branchWeight'>;

interface ChosenPlace extends BranchPlace {
  readonly index: number;
}

/** `longest` is the branch with the most sampled tokens; of several, the first. `last` is the one with the last turn of the rollout. */
export function chosenPlaces(trajectory: Trajectory, choice: Algorithm['branches']): readonly ChosenPlace[] {
  const places = branchPlaces(trajectory).map((place, index) => ({ ...place, index }));
  if (choice === 'all') return places;
  if (choice === 'last') return [places.find(({ branch }) => branch.endsLast === true) ?? places.at(-1)!];
  return [places.reduce((longest, place) => (place.to - place.from > longest.to - longest.from ? place : longest))];
}

/** Tells whether a token, by its place among the M, is in a branch that is trained on; null if all are. */
export function chosenTokens(trajectory: Trajectory, choice: Algorithm['branches']): ((token: number) => boolean) | null {
  if (choice === 'all' || trajectory.branches === undefined) return null;
  const places = chosenPlaces(trajectory, choice);
  return (token) => places.some(({ from, to }) => token >= from && token < to);
}

/**
 * A sequence for each branch that is trained on, in order; the sequence itself if its rollout has one branch. All of them stay in one minibatch. With the weight `rollout`
 * they count as one sequence, with `token` each counts by itself.
 */
export function branchSequences(whole: TrainingSequence, { branches, branchWeight }: Algorithm): readonly TrainingSequence[] {
  const { trajectory, targets } = whole;
  if (trajectory.branches === undefined) return [whole];
  const sequences = sequencesOf(trajectory);
  let to = 0;
  return chosenPlaces(trajectory, branches).map(({ branch, index }) => {
    while (to < targets.length && targets[to]! < branch.start) to++;
    const from = to;
    while (to < targets.length && targets[to]! < branch.end) to++;
    const { images: _, kinds, ...rest } = whole;
    const own = sequences[index]!;
    return {
      ...rest,
      trajectory: own,
      ids: own.ids,
      ...(own.images === undefined ? {} : { images: own.images }),
      targets: targets.slice(from, to).map((at) => at - branch.start),
      advantages: whole.advantages.slice(from, to),
      logProbs: whole.logProbs?.slice(from, to) ?? null,
      referenceLogProbs: whole.referenceLogProbs?.slice(from, to) ?? null,
      ...(kinds === undefined ? {} : { kinds: kinds.slice(from, to) }),
      branchOf: { trajectory, start: branch.start },
      ...(branchWeight === 'rollout' ? { unit: whole } : {}),
    };
  });
}
