/** Which messages of a completion belong to which segment of the same record. */

interface WrittenSegment {
  readonly kind?: unknown;
  /** Number of its messages, if the record says so. */
  readonly message_count?: unknown;
}

/**
 * The messages of each segment, as a range of the completion; empty for a prefill, which is part of the next turn, and for a second text between two turns. Null where messages are
 * not turns, as in continuation format.
 */
export function segmentMessages(
  segments: readonly WrittenSegment[],
  completion: readonly { readonly role?: unknown }[],
): readonly { readonly start: number; readonly end: number }[] | null {
  let at = 0;
  const ranges = segments.map(({ kind, message_count: count }) => {
    const start = at;
    if (kind === 'model') at += completion[at]?.role === 'assistant' ? 1 : NaN;
    else if (typeof count === 'number') at += count;
    else if (kind !== 'prefill') while (at < completion.length && completion[at]!.role !== 'assistant') at += 1;
    return { start, end: at };
  });
  return at === completion.length ? ranges : null;
}
