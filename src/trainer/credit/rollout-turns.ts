/** The turns of a trajectory: which of its sampled tokens one generation gave, and what the environment answered. */
import type { CreditTurn } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';

/** Number of tokens in each stretch of sampled tokens between tokens of others. */
function stretches(targets: Int32Array): number[] {
  const lengths: number[] = [];
  for (const [i, at] of targets.entries()) {
    if (i > 0 && targets[i - 1] === at - 1) lengths[lengths.length - 1]!++;
    else lengths.push(1);
  }
  return lengths;
}

/** Its generations, in order. Where their lengths are unknown, each stretch of sampled tokens is one. */
export function turnsOf({ targets, segments }: Pick<Trajectory, 'targets' | 'segments'>): readonly CreditTurn[] {
  const lengths = stretches(targets);
  const spoken = textsOf(segments);
  const isKnown = spoken.length === lengths.length;
  let end = 0;
  return lengths.map((length, i) => {
    const { text, observation } = isKnown ? spoken[i]! : { text: null, observation: null };
    return { text, observation, start: end, end: (end += length) };
  });
}

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
