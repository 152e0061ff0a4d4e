/**
 * Decides where a chat API's text ends. A server may leave the stop string out of its text, keep it, or ignore it; only some say which one it was. The text
 * that is kept always includes the stop string that ends it, as from a policy by token ids.
 */
import { afterClosedThoughts, answerEnds, outsideThoughts } from '../core/text-outside-thoughts.ts';
import { firstStop } from './written-sample.ts';

export interface StoppedText {
  readonly text: string;
  readonly stopReason: string | number | null;
  /** True if the server does not say whether a stop string ended the text: it was restored because its tag was open, or it may be missing. */
  readonly isGuess: boolean;
  /** True if the server went on after a stop string. */
  readonly wasIgnored: boolean;
}

/** What a server says of the end of its text. */
export interface ReportedStop {
  /** The stop string or token id that it names; null if it says that there was none; undefined if it says nothing. */
  readonly named: string | number | null | undefined;
  /** True if a limit cut the text off, so that no stop string is missing. */
  readonly isCut: boolean;
}

/**
 * Cuts after the first stop string, or puts back the one that the server removed. Without a word of the server, an opening tag decides: it must be open outside
 * thoughts, and no complete answer may follow it. A stop string without an opening tag, such as `Observation:`, cannot be decided.
 */
export function restoreStop(text: string, { named, isCut }: ReportedStop, stop: readonly string[]): StoppedText {
  const first = firstStop(text, stop);
  if (first !== null) {
    const wasIgnored = text.slice(first.end).trim() !== '';
    return { text: text.slice(0, first.end), stopReason: first.stop, isGuess: false, wasIgnored };
  }
  const known = { text, stopReason: named ?? null, isGuess: false, wasIgnored: false };
  if (typeof named === 'string' && stop.includes(named)) return { ...known, text: text + named };
  if (isCut || named !== undefined || stop.length === 0) return known;
  const open = openStop(text, stop);
  if (open === 'none') return known;
  return open === 'unknown' ? { ...known, isGuess: true } : { ...known, text: completed(text, open.end), stopReason: open.end, isGuess: true };
}

/** The text with the end of its tag, of which it may have the first characters. */
function completed(text: string, end: string): string {
  for (let length = end.length - 1; length > 1; length -= 1) if (text.endsWith(end.slice(0, length))) return text + end.slice(length);
  return text + end;
}

/** The stop string whose tag the text leaves open; `unknown` if one may be missing that no tag tells of, `none` if none is missing. */
function openStop(text: string, stop: readonly string[]): { readonly end: string } | 'unknown' | 'none' {
  const spoken = outsideThoughts(text);
  const { tagged, boxed } = answerEnds(spoken);
  let last: { readonly end: string; readonly at: number } | null = null;
  let isUnknown = false;
  for (const end of stop) {
    const openings = openingsOf(end);
    // Nothing tells whether a string without an opening ended the text.
    if (openings.length === 0) isUnknown = true;
    const at = Math.max(-1, ...openings.map((opening) => spoken.lastIndexOf(opening)));
    if (at > (last?.at ?? -1)) last = { end, at };
    // A tag inside thoughts that are never closed is either a real query or only a mention.
    if (at === -1 && openings.some((opening) => text.lastIndexOf(opening) >= afterClosedThoughts(text))) isUnknown = true;
  }
  // Prompts ask for \boxed{YOUR_ANSWER}, and models repeat that before they search. After an answer in tags, an open tag is rarely a query.
  if (last !== null && last.at >= Math.max(tagged, boxed)) return tagged === -1 ? { end: last.end } : 'unknown';
  return isUnknown && Math.max(tagged, boxed) === -1 ? 'unknown' : 'none';
}

/** Words of a closing tag, with those that open it. */
const WORDS: readonly (readonly [closing: string, ...openings: string[]])[] = [
  ['end', 'begin', 'start'],
  ['End', 'Begin', 'Start'],
  ['END', 'BEGIN', 'START'],
  ['close', 'open'],
  ['CLOSE', 'OPEN'],
];

/**
 * The tags that a stop string closes: `<x>` and `<x ` for `</x>`, `[x]` for `[/x]`, `<|begin_x|>` and `<|start_x|>` for `<|end_x|>`, `<|x|>` for `<|/x|>`. White space around the
 * stop string does not matter. Empty for a string that closes no tag.
 * @example openingsOf('<|end_search_query|>') // ['<|begin_search_query|>', '<|start_search_query|>']
 */
function openingsOf(end: string): readonly string[] {
  const tag = end.trim();
  if (!/^[<[{|「【◁(].*[>\]}|」】▷)]$/su.test(tag)) return [];
  const slashed = /^([<[{|「【◁(]+)\/(.+)$/su.exec(tag);
  if (slashed !== null) {
    const opening = slashed[1]! + slashed[2]!;
    // A tag may have attributes.
    return opening.startsWith('<') && !opening.startsWith('<|') ? [opening, opening.replace(/>$/, ' ')] : [opening];
  }
  for (const [closing, ...openings] of WORDS) {
    const word = new RegExp(`(?<![A-Za-z])${closing}(?![a-z])`);
    if (word.test(tag)) return openings.map((opening) => tag.replace(word, opening));
  }
  return [];
}
