/** Methods of Python's text that the Jinja library lacks, or of which it does not know all arguments. Places and widths count code points. */
import { spend } from './python-budget.ts';
import { bracesFormatted } from './python-format.ts';
import {
  flag,
  integer,
  isMissing,
  isNone,
  isText,
  isTrue,
  iterate,
  type Key,
  list,
  type RuntimeFunction,
  type RuntimeValue,
  text,
  textOf,
  tuple,
} from './python-runtime.ts';

/** Null for a method that the library has, or that is unknown. */
export function textMethod(own: string, name: string): RuntimeFunction | null {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name]! : null;
  return method === null
    ? null
    : (args) => {
        const named =
          args.at(-1)?.type === 'KeywordArgumentsValue' ? (args.at(-1)!.value as ReadonlyMap<Key, RuntimeValue>) : new Map<Key, RuntimeValue>();
        return method(own, named.size === 0 ? args : args.slice(0, -1), named);
      };
}

type Method = (own: string, args: readonly RuntimeValue[], named: ReadonlyMap<Key, RuntimeValue>) => RuntimeValue;

/** The boundaries of `str.splitlines`, the control characters among them by their codes. */
const LINE_END = new RegExp(`\\r\\n|[\\n\\r\\v\\f${String.fromCodePoint(0x1c)}-${String.fromCodePoint(0x1e)}\\x85\\u2028\\u2029]`, 'g');
/** White space according to `str.isspace`; JavaScript's `\s` lacks the separators U+001C to U+001F and U+0085, and has U+FEFF. */
const SPACE = '\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000';
const SPACES = new RegExp(`[${SPACE}]+`);
const SPACES_BEFORE = new RegExp(`^[${SPACE}]+`);
const NO_SPACE = new RegExp(`[^${SPACE}]`);
const CASED = /[\p{Lu}\p{Ll}\p{Lt}]/u;

const METHODS: Readonly<Record<string, Method>> = {
  format: (own, args, named) => text(bracesFormatted(own, args, named)),
  format_map: (own, [values]) => text(bracesFormatted(own, [], values!.value as ReadonlyMap<Key, RuntimeValue>)),
  join: (own, [items]) =>
    text(
      iterate(items ?? list([]))
        .map(textItem)
        .join(own),
    ),
  strip: (own, args, named) => text(stripped(own, args[0] ?? named.get('chars'))),
  lstrip: (own, args) => text(stripStart(own, characterSet(args[0]))),
  rstrip: (own, args) => text(stripEnd(own, characterSet(args[0]))),
  find: (own, args) => integer(placeOf(own, args, false)),
  rfind: (own, args) => integer(placeOf(own, args, true)),
  index: (own, args) => integer(foundPlace(own, args, false)),
  rindex: (own, args) => integer(foundPlace(own, args, true)),
  count: (own, args) => integer(part(own, args).split(given(args)).length - (given(args) === '' ? -1 : 1)),
  startswith: (own, args) => flag(affixes(args).some((affix) => part(own, args).startsWith(affix))),
  endswith: (own, args) => flag(affixes(args).some((affix) => part(own, args).endsWith(affix))),
  capitalize: (own) => text(upperFirst(own)),
  title: (own) => text(own.replaceAll(/\p{L}+/gu, upperFirst)),
  swapcase: (own) => text(Array.from(own, (one) => (one === one.toLowerCase() ? one.toUpperCase() : one.toLowerCase())).join('')),
  casefold: (own) => text(own.toLowerCase().replaceAll('ß', 'ss')),
  split: (own, args, named) => splitText(own, args[0] ?? named.get('sep'), args[1] ?? named.get('maxsplit'), false),
  rsplit: (own, args, named) => splitText(own, args[0] ?? named.get('sep'), args[1] ?? named.get('maxsplit'), true),
  splitlines: (own, args, named) => linesOf(own, args[0] ?? named.get('keepends')),
  partition: (own, args) => parted(own, own.indexOf(given(args)), given(args), [own, '', '']),
  rpartition: (own, args) => parted(own, own.lastIndexOf(given(args)), given(args), ['', '', own]),
  center: (own, args) => {
    const room = roomOf(own, args);
    // CPython puts the odd space to the left if the width is odd.
    const before = Math.floor(room / 2) + (room % 2 === 1 && (args[0]!.value as number) % 2 === 1 ? 1 : 0);
    return text(filling(args).repeat(before) + own + filling(args).repeat(room - before));
  },
  ljust: (own, args) => text(own + filling(args).repeat(roomOf(own, args))),
  rjust: (own, args) => text(filling(args).repeat(roomOf(own, args)) + own),
  zfill: (own, args) => text(own.replace(/^[-+]?/, (sign) => sign + '0'.repeat(roomOf(own, args)))),
  expandtabs: (own, [size = integer(8)]) =>
    text(
      own
        .split('\n')
        .map(withoutTabs(size.value as number))
        .join('\n'),
    ),
  isalpha: (own) => flag(/^\p{L}+$/u.test(own)),
  isalnum: (own) => flag(/^[\p{L}\p{N}]+$/u.test(own)),
  isascii: (own) => flag(!/[^\0-\x7f]/.test(own)),
  isdigit: (own) => flag(/^[\p{Nd}²³¹]+$/u.test(own)),
  isdecimal: (own) => flag(/^\p{Nd}+$/u.test(own)),
  isnumeric: (own) => flag(/^\p{N}+$/u.test(own)),
  isidentifier: (own) => flag(/^[\p{ID_Start}_]\p{ID_Continue}*$/u.test(own)),
  islower: (own) => flag(CASED.test(own) && own === own.toLowerCase()),
  isupper: (own) => flag(CASED.test(own) && own === own.toUpperCase()),
  istitle: (own) => flag(CASED.test(own) && own === own.replaceAll(/\p{L}+/gu, upperFirst)),
  isprintable: (own) => flag(!/(?! )[\p{C}\p{Z}]/u.test(own)),
  isspace: (own) => flag(own !== '' && !NO_SPACE.test(own)),
  removeprefix: (own, args) => text(own.startsWith(given(args)) ? own.slice(given(args).length) : own),
  removesuffix: (own, args) => text(own.endsWith(given(args)) ? own.slice(0, own.length - given(args).length) : own),
};

/** Without white space, or without these characters, at both ends. */
export function stripped(own: string, characters?: RuntimeValue): string {
  const set = characterSet(characters);
  return stripEnd(stripStart(own, set), set);
}

function stripStart(own: string, set: ReadonlySet<string> | null): string {
  if (set === null) return own.replace(SPACES_BEFORE, '');
  const all = Array.from(own);
  const start = all.findIndex((character) => !set.has(character));
  return start < 0 ? '' : all.slice(start).join('');
}

export function stripEnd(own: string, set: ReadonlySet<string> | null): string {
  if (set !== null) {
    const all = Array.from(own);
    return all.slice(0, all.findLastIndex((character) => !set.has(character)) + 1).join('');
  }
  let end = own.length;
  while (end > 0 && !NO_SPACE.test(own[end - 1]!)) end -= 1;
  return own.slice(0, end);
}

/** The characters to strip; null for white space. */
function characterSet(characters: RuntimeValue | undefined): ReadonlySet<string> | null {
  if (characters === undefined || isNone(characters)) return null;
  if (!isText(characters)) throw new Error('strip arg must be None or str');
  return new Set(textOf(characters));
}

function given([first]: readonly RuntimeValue[]): string {
  if (first?.type !== 'StringValue') throw new Error('must be str');
  return textOf(first);
}

/** The text between the places in the second and third argument. */
function part(own: string, [, start, end]: readonly RuntimeValue[]): string {
  if (start === undefined) return own;
  return Array.from(own)
    .slice(isNone(start) ? 0 : (start.value as number), end === undefined || isNone(end) ? undefined : (end.value as number))
    .join('');
}

function placeOf(own: string, args: readonly RuntimeValue[], isFromEnd: boolean): number {
  const inside = part(own, args);
  const at = isFromEnd ? inside.lastIndexOf(given(args)) : inside.indexOf(given(args));
  if (at < 0) return -1;
  const start = (args[1]?.value ?? 0) as number;
  return Array.from(inside.slice(0, at)).length + (start < 0 ? Math.max(0, Array.from(own).length + start) : start);
}

function foundPlace(own: string, args: readonly RuntimeValue[], isFromEnd: boolean): number {
  const place = placeOf(own, args, isFromEnd);
  if (place < 0) throw new Error('substring not found');
  return place;
}

function affixes([affix]: readonly RuntimeValue[]): readonly string[] {
  if (affix?.type === 'TupleValue') return (affix.value as readonly RuntimeValue[]).map(textItem);
  if (affix === undefined || !isText(affix)) throw new Error('first arg must be str or a tuple of str');
  return [textOf(affix)];
}

/** The first character in upper case, the others in lower case. */
export function upperFirst(word: string): string {
  const [first = '', ...rest] = Array.from(word);
  return first.toUpperCase() + rest.join('').toLowerCase();
}

function textItem(item: RuntimeValue): string {
  if (item.type !== 'StringValue') throw new Error('sequence item: expected str instance');
  return textOf(item);
}

/** At most `most` separators are used; a negative number means all of them. */
function splitText(own: string, separator: RuntimeValue | undefined, most: RuntimeValue | undefined, isFromEnd: boolean): RuntimeValue {
  const limit = most === undefined || isMissing(most) || (most.value as number) < 0 ? Infinity : (most.value as number);
  const isBlank = separator === undefined || isNone(separator);
  if (!isBlank && textOf(separator) === '') throw new Error('empty separator');
  if (!isBlank && !isText(separator)) throw new Error('must be str or None');
  const parts: string[] = [];
  let rest = isBlank ? (isFromEnd ? stripEnd(own, null) : stripStart(own, null)) : own;
  while (parts.length < limit && rest !== '') {
    const [at, after] = isBlank ? spacesIn(rest, isFromEnd) : placesOf(textOf(separator), rest, isFromEnd);
    if (at < 0) break;
    spend();
    parts.push(isFromEnd ? rest.slice(after) : rest.slice(0, at));
    rest = isFromEnd ? rest.slice(0, at) : rest.slice(after);
    if (!isBlank && rest === '') break;
  }
  if (!isBlank || rest !== '') parts.push(rest);
  return list((isFromEnd ? parts.toReversed() : parts).map((one) => text(one)));
}

/** Where the first or last separator begins and ends; a negative begin if there is none. */
function placesOf(separator: string, own: string, isLast: boolean): readonly [begin: number, end: number] {
  const at = isLast ? own.lastIndexOf(separator) : own.indexOf(separator);
  return [at, at + separator.length];
}

/** The same for white space, in text that has none at that end. No pattern finds the last one in linear time. */
function spacesIn(own: string, isLast: boolean): readonly [begin: number, end: number] {
  if (!isLast) {
    const found = SPACES.exec(own);
    return found === null ? [-1, -1] : [found.index, found.index + found[0].length];
  }
  let end = own.length;
  while (end > 0 && NO_SPACE.test(own[end - 1]!)) end -= 1;
  return end === 0 ? [-1, -1] : [stripEnd(own.slice(0, end), null).length, end];
}

function linesOf(own: string, keepsEnds: RuntimeValue | undefined): RuntimeValue {
  const ends = keepsEnds !== undefined && isTrue(keepsEnds);
  const lines: string[] = [];
  let start = 0;
  for (const { 0: end, index } of own.matchAll(LINE_END)) {
    spend();
    lines.push(own.slice(start, index) + (ends ? end : ''));
    start = index + end.length;
  }
  if (start < own.length) lines.push(own.slice(start));
  return list(lines.map((line) => text(line)));
}

function parted(own: string, at: number, separator: string, otherwise: readonly string[]): RuntimeValue {
  if (separator === '') throw new Error('empty separator');
  return tuple((at < 0 ? otherwise : [own.slice(0, at), separator, own.slice(at + separator.length)]).map((one) => text(one)));
}

function roomOf(own: string, [width]: readonly RuntimeValue[]): number {
  return Math.max(0, ((width?.value ?? 0) as number) - Array.from(own).length);
}

function filling([, fill]: readonly RuntimeValue[]): string {
  return fill === undefined ? ' ' : textOf(fill);
}

function withoutTabs(size: number): (line: string) => string {
  return (line) => line.split('\t').reduce((before, piece) => before + ' '.repeat(size <= 0 ? 0 : size - (Array.from(before).length % size)) + piece);
}
