/**
 * Where each sampled token ends in the text that the server decoded. vLLM gives the text and each token's own string, and the two differ:
 * - a token that holds part of a character has the string '' and the whole character belongs to the one that completes it;
 * - bytes that never form a character are U+FFFD in the text and '' in the tokens;
 * - special tokens have a string, but the text leaves them out;
 * - the text is cut at a stop string that may end inside the last token.
 * The server's own `text_offset` sums up token strings, counts code points and is wrong after any of these, so it is not used.
 */

export interface Alignment {
  /** UTF-16 offset in `text + tail` after token i. [T], non-decreasing; the last one is the whole length. */
  readonly textEnds: Int32Array;
  /** What the last token adds beyond the text. */
  readonly tail: string;
  /** Characters of the text beyond what all the tokens can stand for together; above 0 the tokens are not those of the text. */
  readonly unexplained: number;
}

/** Characters that one token with part of a character may stand for, at most. */
const CHARS_PER_PARTIAL_TOKEN = 4;
/** How far ahead a token is looked for at most; keeps hostile output in linear time. */
const FURTHEST_MATCH = 256;

/**
 * Aligns `tokens` [T] with `text`. Where a stretch cannot be told apart, its last token gets all of it: a cut inside then keeps too much,
 * never too little. `endsAtStopString`: the text ends with a stop string, perhaps inside the last token.
 */
export function alignTokens(text: string, tokens: readonly string[], endsAtStopString: boolean): Alignment {
  const textEnds = new Int32Array(tokens.length);
  let tail = '';
  let at = 0;
  // Since the last match: how many characters the tokens without a place may stand for, and which of them such characters go to:
  // the last one once a character is pending, for an earlier one would end behind text that a later one completes.
  let slack = 0;
  let heir = -1;
  for (const [i, token] of tokens.entries()) {
    const reach = { slack, isPending: heir >= 0, mayOverhang: endsAtStopString && i === tokens.length - 1 };
    const place = locate(text, token, at, reach);
    if (place === null) {
      if (isPartial(token) || heir >= 0) heir = i;
      slack += isPartial(token) ? CHARS_PER_PARTIAL_TOKEN : token.length;
      textEnds[i] = at;
      continue;
    }
    // A token that begins with U+FFFD completes the pending character itself.
    if (place.start > at && heir >= 0 && !token.startsWith('\uFFFD')) textEnds.fill(place.start, heir, i);
    tail = text.length < place.end ? token.slice(text.length - place.end) : '';
    at = Math.min(place.end, text.length);
    const leavesPart = token.endsWith('\uFFFD') && text[at - 1] !== '\uFFFD';
    slack = leavesPart ? CHARS_PER_PARTIAL_TOKEN : 0;
    heir = leavesPart ? i : -1;
    textEnds[i] = place.end;
  }
  const last = tokens.length - 1;
  if (at < text.length) textEnds.fill(text.length, heir < 0 ? Math.max(0, last) : heir);
  if (last >= 0) textEnds[last] = text.length + tail.length;
  return { textEnds, tail, unexplained: Math.max(0, text.length - mostCharacters(tokens)) };
}

/** Bytes that form no character become one U+FFFD each, and no vocabulary has more of them in a token. */
const MOST_STRAY_BYTES = 16;

/** What the tokens can stand for: their strings, characters begun or ended beside them, and the space that SentencePiece drops. */
function mostCharacters(tokens: readonly string[]): number {
  return tokens.reduce((sum, token) => sum + token.length + (isPartial(token) ? MOST_STRAY_BYTES : CHARS_PER_PARTIAL_TOKEN + 1), 0);
}

const isPartial = (token: string) => /^\uFFFD*$/.test(token);
// oxlint-disable-next-line eslint/no-control-regex -- all of ASCII
const isAscii = (text: string) => /^[\0-\x7f]*$/.test(text);

interface Reach {
  /** Characters that may lie between; U+FFFD costs nothing once there is any. */
  readonly slack: number;
  /** A character was left unfinished: the token holds all of it, or it lies between, itself or as U+FFFD. */
  readonly isPending: boolean;
  /** The text may end inside the token. */
  readonly mayOverhang: boolean;
}

/** The first place of `token` in `text` from `at` on, within reach; null without one. */
function locate(text: string, token: string, at: number, { slack, isPending, mayOverhang }: Reach): { start: number; end: number } | null {
  const leavesPending = isPending && isAscii(token);
  if (token !== '' && !leavesPending && text.startsWith(token, at)) return { start: at, end: at + token.length };
  // What the rest of a character looks like depends on its neighbours; what lies between two such rests does not.
  const core = token.replace(/^\uFFFD+|\uFFFD+$/g, '');
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

/** First place of `core` behind a character beyond ASCII; -1 without. */
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
