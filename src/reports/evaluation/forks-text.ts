import type { ForkFigures } from '../../schemas/summary.ts';
import { countText, plural } from '../text/number-text.ts';

/** `3 of 12 rollouts (25 %) are several sequences: history 4, tools 1. The first (history): message 3 (user) was "…" and is "…"`. Unescaped text of agents. */
export function forksText({ rollouts, share, kinds }: ForkFigures): string {
  const named = Object.entries(kinds);
  const counts = named.map(([kind, { count }]) => `${kind} ${countText(count)}`).join(', ');
  const percent = `${(share * 100).toFixed(share > 0 && share < 0.01 ? 1 : 0)} %`;
  const first = named[0] === undefined ? '' : `. The first (${named[0][0]}): ${named[0][1].example}`;
  return `${plural(rollouts, 'rollout')} (${percent}) ${rollouts === 1 ? 'is' : 'are'} several sequences: ${counts}${first}`;
}
