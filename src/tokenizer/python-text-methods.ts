/** Methods of Python's text that the Jinja library lacks. */
import { flag, integer, iterate, list, type RuntimeFunction, text, textOf } from './python-runtime.ts';
import { pythonText } from './python-values.ts';

/** Null for a method that the library has, or that is unknown. */
export function textMethod(own: string, name: string): RuntimeFunction | null {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name]! : null;
  return method === null ? null : (args) => method(own, args);
}

type Argument = Parameters<RuntimeFunction>[0][number];
type Method = (own: string, args: Parameters<RuntimeFunction>[0]) => ReturnType<RuntimeFunction>;

const given = (args: Parameters<RuntimeFunction>[0]) => {
  const [first] = args;
  if (first?.type !== 'StringValue') throw new Error('must be str');
  return textOf(first);
};
/** In code points. */
const placeOf = (own: string, at: number) => (at < 0 ? -1 : Array.from(own.slice(0, at)).length);

/** The boundaries of `str.splitlines`, the control characters among them by their codes. */
const LINE_END = new RegExp(`\\r\\n|[\\n\\r\\v\\f${String.fromCodePoint(0x1c)}-${String.fromCodePoint(0x1e)}\\x85\\u2028\\u2029]`);

const METHODS: Readonly<Record<string, Method>> = {
  format: filled,
  join: (own, [items]) =>
    text(
      iterate(items ?? list([]))
        .map(textItem)
        .join(own),
    ),
  find: (own, args) => integer(placeOf(own, own.indexOf(given(args)))),
  rfind: (own, args) => integer(placeOf(own, own.lastIndexOf(given(args)))),
  index: (own, args) => {
    const at = own.indexOf(given(args));
    if (at < 0) throw new Error('substring not found');
    return integer(placeOf(own, at));
  },
  title: (own) => text(own.toLowerCase().replaceAll(/\p{L}+/gu, (word) => word[0]!.toUpperCase() + word.slice(1))),
  rsplit: (own, [separator, most]) => splitFromEnd(own, separator, most),
  isalpha: (own) => flag(/^\p{L}+$/u.test(own)),
  isalnum: (own) => flag(/^[\p{L}\p{N}]+$/u.test(own)),
  count: (own, args) => integer(own.split(given(args)).length - 1),
  splitlines: (own) =>
    list(
      (own.endsWith('\n') ? own.slice(0, -1) : own)
        .split(LINE_END)
        .filter((_, i) => own !== '' || i > 0)
        .map((line) => text(line)),
    ),
  isdigit: (own) => flag(/^\p{Nd}+$/u.test(own)),
  isspace: (own) => flag(own !== '' && own.trim() === ''),
  removeprefix: (own, args) => text(own.startsWith(given(args)) ? own.slice(given(args).length) : own),
  removesuffix: (own, args) => text(own.endsWith(given(args)) ? own.slice(0, own.length - given(args).length) : own),
};

function textItem(item: Argument): string {
  if (item.type !== 'StringValue') throw new Error('sequence item: expected str instance');
  return textOf(item);
}

function splitFromEnd(own: string, separator: Argument | undefined, most: Argument | undefined): ReturnType<RuntimeFunction> {
  const by = separator === undefined || separator.type === 'NullValue' ? null : textOf(separator);
  const parts = by === null ? own.trim().split(/\s+/) : own.split(by);
  const kept = most === undefined ? parts.length : Math.max(0, parts.length - 1 - (most.value as number));
  return list(
    (most === undefined || kept === 0 ? parts : [parts.slice(0, kept + 1).join(by ?? ' '), ...parts.slice(kept + 1)]).map((part) => text(part)),
  );
}

/** `'{} {0} {name}'.format(...)`, without format specifications. */
function filled(own: string, args: readonly Argument[]): ReturnType<RuntimeFunction> {
  const named = args.at(-1)?.type === 'KeywordArgumentsValue' ? (args.at(-1)!.value as ReadonlyMap<string, Argument>) : new Map<string, Argument>();
  const positional = args.filter(({ type }) => type !== 'KeywordArgumentsValue');
  let next = 0;
  const written = own.replaceAll(/\{\{|\}\}|\{(\w*)\}/g, (whole, name: string | undefined) => {
    if (name === undefined) return whole[0]!;
    const value = /^\d*$/.test(name) ? positional[name === '' ? next++ : Number(name)] : named.get(name);
    if (value === undefined) throw new Error(`Replacement ${whole} has no value`);
    return pythonText(value);
  });
  return text(written);
}
