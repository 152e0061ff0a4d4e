/** Why and where a branch of an agent's rollout began, in words for people. */
import { countText } from './count-text.ts';

interface BegunBranch {
  readonly parent: number | null;
  readonly fork: { readonly kind: string; readonly at: number; readonly difference: string } | null;
}

/** By kind of fork; files of other versions may have others. */
const REASONS: Readonly<Record<string, string>> = {
  tools: 'other tools',
  system: 'another system prompt',
  history: 'its history was rewritten',
  retry: 'an old request was asked again',
  sample: 'one of several answers',
  side: 'a side question without tools',
};

/** In a few words, such as `its history was rewritten`. A branch without a fork ran next to the others. */
export function branchReason(fork: { readonly kind: string } | null): string {
  return fork === null ? 'another sequence' : (REASONS[fork.kind] ?? fork.kind);
}

/** `left branch 0 after 3 messages` or `began anew`, with what differed there; null for a branch without a fork. */
export function branchPlace({ parent, fork }: BegunBranch): string | null {
  if (fork === null) return null;
  const place = parent === null ? 'began anew' : `left branch ${parent}`;
  const after = fork.at === 0 ? '' : ` after ${countText(fork.at)} ${fork.at === 1 ? 'message' : 'messages'}`;
  return `${place}${after}${fork.difference === '' ? '' : `: ${fork.difference}`}`;
}
