/** Puts back the stop string that a chat API left out of its text. */

export interface RestoredText {
  readonly text: string;
  readonly stopReason: string | number | null;
  /** True if the stop string was restored because its tag was open, not because the server named it. */
  readonly stopWasGuessed: boolean;
}

/**
 * Restores the stop string, which servers remove. vLLM reports it in `stop_reason`. For other servers it is guessed: if the text ends inside an open
 * tag whose closing tag is a stop string, it is restored. A model that ended its turn inside a tag is misread, so the result says whether it is a guess.
 */
export function restoreStop(text: string, named: string | number | null, stop: readonly string[]): RestoredText {
  if (typeof named === 'number') return { text, stopReason: named, stopWasGuessed: false };
  if (named !== null && stop.includes(named)) return { text: text.endsWith(named) ? text : text + named, stopReason: named, stopWasGuessed: false };
  const kept = stop.find((end) => text.endsWith(end));
  if (kept !== undefined) return { text, stopReason: kept, stopWasGuessed: false };
  let guess: { end: string; opened: number } | null = null;
  for (const end of stop) {
    if (!/^<\/[^<>]+>$/.test(end)) continue;
    const opened = text.lastIndexOf(`<${end.slice(2)}`);
    if (opened > text.lastIndexOf(end) && opened > (guess?.opened ?? -1)) guess = { end, opened };
  }
  return guess === null
    ? { text, stopReason: named, stopWasGuessed: false }
    : { text: text + guess.end, stopReason: guess.end, stopWasGuessed: true };
}
