/**
 * The spellings in which a server may repeat a secret that it was sent: escaped as in JSON, a URL or HTML, up to four times over, and in base64 or hexadecimal. Not
 * responsible for ciphers: a server that means to write the secret down can always do so.
 */

/** Layers of escapes that are undone: a JSON text in a JSON text in a page has three. */
const MOST_LAYERS = 4;
/** Characters of base64 from which a match is no chance: a picture of 1 MB holds a given text of 6 with a probability of 1 in 65,000. */
const SHORTEST_BASE64 = 6;
/** One escaped character. Every alternative begins with a character that its repeated parts cannot match, so that the time is linear. */
const ESCAPE =
  /\\u([\da-f]{4})|\\u\{0*([\da-f]{1,6})\}|\\x([\da-f]{2})|&#x0*([\da-f]{1,6});?|&#0*(\d{1,7});?|\\([^\w\s])|&([a-z]{2,8});|%[0-7][\da-f]|%[c-f][\da-f](?:%[89ab][\da-f]){1,3}/gi;
/** The names of HTML for the characters of ASCII. */
const ENTITIES: ReadonlyMap<string, string> = new Map(
  [
    ...'excl!quot"num#dollar$percnt%amp&apos\'lpar(rpar)ast*plus+comma,hyphen-dash-period.sol/colon:semi;lt<equals=gt>quest?commat@'.matchAll(
      /([a-z]+)(.)/g,
    ),
    ...'lsqb[lbrack[bsol\\rsqb]rbrack]hat^lowbar_underbar_grave`lcub{lbrace{verbar|vert|rcub}rbrace}'.matchAll(/([a-z]+)(.)/g),
  ].map(([, name, character]) => [name!, character!]),
);

/** The texts to look for, longest first: otherwise a secret that contains another would be hidden only in part. */
export function secretSpellings(secrets: readonly string[]): readonly string[] {
  const spellings = secrets.flatMap((secret) => {
    const hex = Buffer.from(secret).toString('hex');
    return [secret, hex, hex.toUpperCase(), ...[0, 1, 2].flatMap((before) => base64Spellings(secret, before))];
  });
  return [...new Set(spellings)].toSorted((a, b) => b.length - a.length);
}

/** The characters that the secret alone decides in the base64 of a text that has it after `before` bytes, modulo 3: `user:secret` of Basic authentication. */
function base64Spellings(secret: string, before: number): readonly string[] {
  const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]);
  const from = Math.ceil((before * 8) / 6);
  const whole = bytes.toString('base64').slice(from, Math.floor((bytes.length * 8) / 6));
  return whole.length < SHORTEST_BASE64 ? [] : [whole, whole.replaceAll('+', '-').replaceAll('/', '_')];
}

/** The text with every spelling, escaped or not, replaced by `***`. */
export function hideSpellings(text: string, spellings: readonly string[]): string {
  let hidden = spellings.reduce((rest, spelling) => rest.replaceAll(spelling, '***'), text);
  for (let layers = 1, plain = hidden; layers <= MOST_LAYERS; layers++) {
    const next = plain.replace(ESCAPE, unescaped);
    if (next === plain) break;
    plain = next;
    if (!spellings.some((spelling) => plain.includes(spelling))) continue;
    hidden = hideEscaped(hidden, spellings, layers);
    plain = unescapedTimes(hidden, layers);
  }
  return hidden;
}

function unescapedTimes(text: string, layers: number): string {
  return layers === 0 ? text : unescapedTimes(text.replace(ESCAPE, unescaped), layers - 1);
}

/** Replaces what reads as a spelling once `layers` of escapes are undone. */
function hideEscaped(text: string, spellings: readonly string[], layers: number): string {
  let plain = text;
  let starts: Int32Array | null = null;
  for (let layer = 0; layer < layers; layer++) {
    const undone = withStarts(plain);
    starts = starts === null ? undone.starts : undone.starts.map((start) => starts![start]!);
    plain = undone.text;
  }
  const pieces: string[] = [];
  let at = 0;
  for (const [from, to] of placesOf(plain, spellings)) {
    pieces.push(text.slice(at, starts![from]), '***');
    at = starts![to]!;
  }
  return pieces.join('') + text.slice(at);
}

/** Places in order that do not overlap. */
function placesOf(text: string, spellings: readonly string[]): readonly (readonly [from: number, to: number])[] {
  const found: [number, number][] = [];
  for (const spelling of spellings)
    for (let at = text.indexOf(spelling); at !== -1; at = text.indexOf(spelling, at + 1)) found.push([at, at + spelling.length]);
  const places: [number, number][] = [];
  for (const [from, to] of found.toSorted((a, b) => a[0] - b[0])) {
    const last = places.at(-1);
    if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
    else places.push([from, to]);
  }
  return places;
}

/** The text with one layer of escapes undone, and where each of its characters begins in `text`; the last number is the length of `text`. */
function withStarts(text: string): { readonly text: string; readonly starts: Int32Array } {
  const starts = new Int32Array(text.length + 1);
  const pieces: string[] = [];
  let length = 0;
  let at = 0;
  for (const match of text.matchAll(ESCAPE)) {
    pieces.push(text.slice(at, match.index));
    while (at < match.index) starts[length++] = at++;
    const character = unescaped(match[0], ...match.slice(1));
    pieces.push(character);
    starts.fill(at, length, (length += character.length));
    at += match[0].length;
  }
  pieces.push(text.slice(at));
  while (at <= text.length) starts[length++] = at++;
  return { text: pieces.join(''), starts: starts.subarray(0, length) };
}

/** The character of one match of ESCAPE; the match itself if it names none. */
function unescaped(all: string, ...groups: readonly unknown[]): string {
  const [unit, point, byte, pagePoint, pageDecimal, escaped, name] = groups as readonly (string | undefined)[];
  if (escaped !== undefined) return escaped;
  if (name !== undefined) return ENTITIES.get(name.toLowerCase()) ?? all;
  const hex = unit ?? point ?? byte ?? pagePoint;
  if (hex === undefined && pageDecimal === undefined) return percentDecoded(all);
  const code = hex === undefined ? Number(pageDecimal) : Number.parseInt(hex, 16);
  return code > 0x10_ff_ff ? all : String.fromCodePoint(code);
}

/** The text itself if it is not percent-encoded. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A stray percent sign: the text is not encoded.
    return text;
  }
}
