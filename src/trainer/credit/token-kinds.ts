/** The tag that each sampled token of a trajectory is written in, such as a thought, a search call or an answer. */
import { sequencesOf } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';
import { turnsOf } from './rollout-turns.ts';

const TAG = /<(\/?)([A-Za-z][\w-]{0,63})>/g;

/** An opening tag at the end of the text before a turn: a thought that the chat template or a prefill opens. */
const OPENED = /<[A-Za-z][\w-]{0,63}>\s*$/;

/** Tokens before a turn in which such a tag may stand. */
const OPENING_TOKENS = 8;

/**
 * One per target, [M]: the innermost tag `<name> … </name>` of its turn, or '' outside of tags. A token belongs to a tag if any of its text does, opening and closing tag
 * included. A tag that the turn does not close holds the rest of it; tags that the environment wrote hold nothing.
 * @param spelling the bytes of a token, each as a character: tags are ASCII, and a character may be split over several tokens
 */
export function tokenKinds(trajectory: Trajectory, spelling: (id: number) => string): readonly string[] {
  return sequencesOf(trajectory).flatMap((sequence) => kindsIn(sequence, spelling));
}

function kindsIn(trajectory: Trajectory, spelling: (id: number) => string): readonly string[] {
  const { ids, targets } = trajectory;
  const spelled = (tokens: Int32Array) => Array.from(tokens, (id) => spelling(id));
  return turnsOf(trajectory).flatMap(({ start, end }) => {
    if (start === end) return [];
    const first = targets[start]!;
    const isPlayedOn = start > 0 && targets[start - 1] === first - 1;
    const before = isPlayedOn ? '' : spelled(ids.subarray(Math.max(0, first - OPENING_TOKENS), first)).join('');
    const opening = OPENED.exec(before)?.[0] ?? '';
    const written = spelled(Int32Array.from(targets.subarray(start, end), (at) => ids[at]!));
    const spans = tagSpans(opening + written.join(''));
    let place = opening.length;
    return written.map((text) => {
      const from = place;
      place += text.length;
      return spans.findLast((span) => span.start < place && span.end > from)?.name ?? '';
    });
  });
}

interface Span {
  readonly name: string;
  readonly start: number;
  end: number;
}

/** In the order in which they open, so that the last one around a place is the innermost. */
function tagSpans(text: string): readonly Span[] {
  const spans: Span[] = [];
  const open: Span[] = [];
  for (const { 0: tag, 1: slash, 2: name = '', index } of text.matchAll(TAG)) {
    if (slash === '') {
      const span = { name, start: index, end: text.length };
      spans.push(span);
      open.push(span);
      continue;
    }
    const at = open.findLastIndex((span) => span.name === name);
    // Tags inside that were never closed end with it.
    if (at !== -1) for (const span of open.splice(at)) span.end = index + tag.length;
  }
  return spans;
}
