/** The versions of the policy that sampled a stretch of tokens. A stretch has several if new weights were published while it was sampled. */

/** Consecutive tokens that one version sampled. */
export interface VersionSpan {
  readonly version: number;
  /** Number of tokens, at least 1. */
  readonly tokens: number;
}

/** The part [from, to) of the spans, counted in tokens from their start. */
export function spansBetween(spans: readonly VersionSpan[], from: number, to: number): readonly VersionSpan[] {
  let start = 0;
  return spans.flatMap(({ version, tokens }) => {
    const end = start + tokens;
    const kept = Math.min(end, to) - Math.max(start, from);
    start = end;
    return kept > 0 ? [{ version, tokens: kept }] : [];
  });
}

/** One after another; neighbours of one version become one. */
export function joinedSpans(spans: readonly VersionSpan[]): readonly VersionSpan[] {
  const joined: VersionSpan[] = [];
  for (const { version, tokens } of spans) {
    const last = joined.at(-1);
    if (last?.version === version) joined.splice(-1, 1, { version, tokens: last.tokens + tokens });
    else joined.push({ version, tokens });
  }
  return joined;
}

/** What is wrong with spans that should cover this many tokens; null if nothing is. */
export function spansProblem(spans: readonly VersionSpan[], tokens: number): string | null {
  const covered = spans.reduce((sum, span) => sum + span.tokens, 0);
  if (covered !== tokens) return `versions cover ${covered} of ${tokens} tokens`;
  const empty = spans.findIndex((span) => span.tokens < 1);
  return empty < 0 ? null : `versions[${empty}] has ${spans[empty]!.tokens} tokens`;
}
