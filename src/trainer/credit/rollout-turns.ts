/** The turns of a trajectory: which of its sampled tokens one generation gave, and what the environment answered. */
import type { CreditTurn } from '../credit.ts';
import { stretches, type Trajectory } from '../trajectory.ts';

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
