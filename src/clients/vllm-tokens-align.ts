/**
 * Finds where each sampled token ends in the text that the server decoded. vLLM returns the text and each token's string, but they differ:
 * - a token with part of a character has the string '', and the whole character belongs to the token that completes it;
 * - bytes that never form a character are U+FFFD in the text and '' in the tokens;
 * - special tokens have a string, but are not in the text;
 * - the text is cut after a stop string, which may end inside the last token.
 * The server's `text_offset` adds up token strings in code points and is wrong after any of these, so it is not used.
 */

export interface Alignment {
  /** UTF-16 offset in `text + tail` after token i. [T], non-decreasing; the last one equals the whole length. */
  readonly textEnds: Int32Array;
  /** Text of the last token after the end of `text`. */
  readonly tail: string;
  /** Characters of the text that the tokens cannot account for; above 0, the tokens do not belong to the text. */
  readonly unexplained: number;
}

/** Most characters that one token with part of a character may stand for. */
const CHARS_PER_PARTIAL_TOKEN = 4;
/** Number of characters ahead in which a token is searched for; keeps hostile output in linear time. */
const FURTHEST_MATCH = 256;

/**
 * Aligns `tokens` [T] with `text`. If the boundaries within a stretch are unknown, its last token gets all of it, so that a cut inside keeps too
 * much rather than too little. `endsAtStopString`: the text ends with a stop string, perhaps inside the last token.
 */
export function alignTokens(text: string, tokens: readonly string[], endsAtStopString: boolean): Alignment {
  const textEnds = new Int32Array(tokens.length);
  let tail = '';
  let at = 0;
  // Since the last match: the number of characters that the unplaced tokens may stand for, and the token that such characters are assigned to. Once a
  // character is pending this is the last unplaced one: an earlier one would end after text that a later one completes.
  let slack = 0;
  let owner = -1;
  for (const [i, token] of tokens.entries()) {
    const reach = { slack, isPending: owner >= 0, mayOverhang: endsAtStopString && i === tokens.length - 1 };
    const place = locate(text, token, at, reach);
    if (place === null) {
      if (isPartial(token) || owner >= 0) owner = i;
      slack += isPartial(token) ? CHARS_PER_PARTIAL_TOKEN : token.length;
      textEnds[i] = at;
      continue;
    }
    // A token that begins with U+FFFD completes the pending character itself.
    if (place.start > at && owner >= 0 && !token.startsWith('\uFFFD')) textEnds.fill(place.start, owner, i);
    tail = text.length < place.end ? token.slice(text.length - place.end) : '';
    at = Math.min(place.end, text.length);
    const leavesPart = token.endsWith('\uFFFD') && text[at - 1] !== '\uFFFD';
    slack = leavesPart ? CHARS_PER_PARTIAL_TOKEN : 0;
    owner = leavesPart ? i : -1;
    textEnds[i] = place.end;
  }
  const last = tokens.length - 1;
  if (at < text.length) textEnds.fill(text.length, owner < 0 ? Math.max(0, last) : owner);
  if (last >= 0) textEnds[last] = text.length + tail.length;
  return { textEnds, tail, unexplained: Math.max(0, text.length - mostCharacters(tokens)) };
}

/** Each invalid byte becomes one U+FFFD; no vocabulary has more of them in a token. */
const MOST_STRAY_BYTES = 16;

/** Most characters that the tokens can stand for: their strings, characters split across their ends, and the space that SentencePiece drops. */
function mostCharacters(tokens: readonly string[]): number {
  return tokens.reduce((sum, token) => sum + token.length + (isPartial(token) ? MOST_STRAY_BYTES : CHARS_PER_PARTIAL_TOKEN + 1), 0);
}

const isPartial = (token: string) => /^\uFFFD*$/.test(token);
// oxlint-disable-next-line eslint/no-control-regex -- all of ASCII
const isAscii = (text: string) => /^[\0-\x7f]*$/.test(text);

interface Reach {
  /** Characters that may be skipped; if any may, U+FFFD may be skipped freely. */
  readonly slack: number;
  /** A character is unfinished: either the token contains all of it, or it precedes the token, as itself or as U+FFFD. */
  readonly isPending: boolean;
  /** The text may end inside the token. */
  readonly mayOverhang: boolean;
}

/** The first occurrence of `token` in `text` from `at` on, within reach; null if there is none. */
function locate(text: string, token: string, at: number, { slack, isPending, mayOverhang }: Reach): { start: number; end: number } | null {
  const leavesPending = isPending && isAscii(token);
  if (token !== '' && !leavesPending && text.startsWith(token, at)) return { start: at, end: at + token.length };
  // The partial characters at a token's ends decode differently next to other tokens; the part between them does not.
  const core = token.replace(/^\uFFFD+|(?<!\uFFFD)\uFFFD+$/g, '');
  if (core === '') return null;
  const reach = slack + (core === token ? 0 : CHARS_PER_PARTIAL_TOKEN);
  const from = reach === 0 ? at : skipReplacements(text, at);
  // SentencePiece: a token decoded alone loses its leading space.
  const spare = text[at] === ' ' ? 1 : 0;
  const ahead = text.slice(at, Math.min(from + Math.max(reach, spare), at + FURTHEST_MATCH) + core.length);
  const afterCharacter = leavesPending || token.startsWith('\uFFFD') ? indexAfterNonAscii(ahead, core) : -1;
  const index = afterCharacter >= 0 ? afterCharacter : ahead.indexOf(core);
  if (index >= 0) return { start: at + index, end: at + index + core.length };
  if (!mayOverhang) return null;
  for (let start = Math.max(at, text.length - core.length + 1); start < text.length; start++) {
    if (core.startsWith(text.slice(start))) return { start, end: start + core.length };
  }
  return null;
}

/** Index of the first `core` that follows a non-ASCII character; -1 if there is none. */
function indexAfterNonAscii(text: string, core: string): number {
  let index = text.indexOf(core, 1);
  while (index > 0 && text.charCodeAt(index - 1) < 0x80) index = text.indexOf(core, index + 1);
  return index;
}

function skipReplacements(text: string, at: number): number {
  let from = at;
  while (text[from] === '\uFFFD' && from < at + FURTHEST_MATCH) from++;
  return from;
}
