/** The turns of a trajectory: which of its sampled tokens one generation gave, and what the environment answered. */
import type { CreditTurn, TrainingSequence } from '../credit.ts';
import { stretches } from '../../schemas/turn-columns.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';

/** Its generations, in order. Where their lengths are unknown, each stretch of sampled tokens is one. */
export function turnsOf({ targets, segments, turnTokens, turnRewards = [] }: PlayedTurns): readonly CreditTurn[] {
  const lengths = turnTokens ?? stretches(targets);
  const spoken = textsOf(segments);
  const isKnown = spoken.length === lengths.length;
  let end = 0;
  return lengths.map((length, i) => {
    const { text, observation } = isKnown ? spoken[i]! : { text: null, observation: null };
    return { text, observation, reward: turnRewards[i] ?? null, start: end, end: (end += length) };
  });
}

type PlayedTurns = Pick<Trajectory, 'targets' | 'segments' | 'turnTokens' | 'turnRewards'>;

/** Where a token stands. */
export interface TokenPlace {
  /** Number of its turn, from 0. */
  readonly turn: number;
  /** Its index in the whole sequence: in its branch, if the rollout has several. */
  readonly position: number;
  /** Its index among the sampled tokens of its turn. */
  readonly inTurn: number;
}

/** One per target, which may be fewer than those of the trajectory. The turns of a branch are numbered in its rollout. */
export function tokenPlaces({ trajectory, targets, branchOf }: PlacedTargets): readonly TokenPlace[] {
  const whole = branchOf?.trajectory ?? trajectory;
  const first = branchOf?.start ?? 0;
  const all = new Map<number, TokenPlace>();
  for (const [turn, { start, end }] of (isDemonstration(whole) ? [{ start: 0, end: whole.targets.length }] : turnsOf(whole)).entries())
    for (let token = start; token < end; token++) {
      const position = whole.targets[token]! - first;
      all.set(position, { turn, position, inTurn: token - start });
    }
  return Array.from(targets, (position) => all.get(position)!);
}

type PlacedTargets = Pick<TrainingSequence, 'trajectory' | 'targets' | 'branchOf'>;

/** The text of each turn, and of what the environment added before the next. */
function textsOf(segments: Trajectory['segments']): { readonly text: string; observation: string | null }[] {
  const turns: { readonly text: string; observation: string | null }[] = [];
  for (const { kind, text } of segments) {
    const last = turns.at(-1);
    if (kind === 'model') turns.push({ text, observation: null });
    else if (kind !== 'prefill' && last !== undefined) last.observation = (last.observation ?? '') + text;
  }
  return turns;
}
