/**
 * Finds the first JSON object with a grade in a reply, as Python's json module reads objects: NaN and Infinity are numbers, the last of repeated
 * keys counts. Every opening brace can begin an object. Linear in the text: an object that was read, or failed, within another one is not read again.
 */

/** Either of them is the grade of an object. */
const GRADES = ['grade', 'overall_grade'] as const;

/** Characters of a key, as it is written: a dimension has at most 64, each perhaps escaped. */
const LONGEST_KEY = 400;
/** Deeper objects count as broken. */
const MAX_DEPTH = 200;

const WHITESPACE = /[ \t\n\r]*/y;
/** Characters of a string without an escape. */
const PLAIN = String.raw`[^"\\\x00-\x1f]*`;
const STRING = new RegExp(String.raw`"${PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})${PLAIN})*"`, 'y');
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y;
const CONSTANTS: readonly (readonly [string, unknown])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
];

/**
 * The grade, the rationale and the further keys of the first object with a grade, in the order of opening braces, so that an object comes before those inside it; null if
 * there is none. Whole objects and lists are undefined.
 */
export function firstGradedObject(text: string, further: readonly string[] = []): ReadonlyMap<string, unknown> | null {
  const reader = new ObjectReader(text, new Set([...GRADES, 'rationale', ...further]));
  for (let at = text.indexOf('{'); at !== -1; at = text.indexOf('{', at + 1)) {
    const object = reader.objectAt(at);
    if (object !== null && GRADES.some((name) => object.keys.has(name))) return object.keys;
  }
  return null;
}

interface ReadObject {
  readonly end: number;
  /** Values of the keys that count; whole objects and lists are left out of them. */
  readonly keys: ReadonlyMap<string, unknown>;
}

interface ReadValue {
  readonly end: number;
  readonly value: unknown;
}

class ObjectReader {
  readonly #text: string;
  readonly #kept: ReadonlySet<string>;
  /** By the index of its opening brace; null if it is broken. */
  readonly #read = new Map<number, ReadObject | null>();

  constructor(text: string, kept: ReadonlySet<string>) {
    this.#text = text;
    this.#kept = kept;
  }

  objectAt(start: number, depth = 0): ReadObject | null {
    const known = this.#read.get(start);
    if (known !== undefined) return known;
    const object = depth < MAX_DEPTH ? this.#members(start, depth) : null;
    this.#read.set(start, object);
    return object;
  }

  #members(start: number, depth: number): ReadObject | null {
    const keys = new Map<string, unknown>();
    let at = this.#skip(start + 1);
    if (this.#text[at] === '}') return { end: at + 1, keys };
    for (;;) {
      const key = this.#match(STRING, at);
      if (key === null) return null;
      const colon = this.#skip(at + key.length);
      if (this.#text[colon] !== ':') return null;
      const value = this.#value(this.#skip(colon + 1), depth);
      if (value === null) return null;
      const name = key.length < LONGEST_KEY ? (JSON.parse(key) as string) : '';
      if (this.#kept.has(name)) keys.set(name, value.value);
      at = this.#skip(value.end);
      if (this.#text[at] === '}') return { end: at + 1, keys };
      if (this.#text[at] !== ',') return null;
      at = this.#skip(at + 1);
    }
  }

  #value(at: number, depth: number): ReadValue | null {
    const first = this.#text[at];
    if (first === '{') {
      const object = this.objectAt(at, depth + 1);
      return object === null ? null : { end: object.end, value: undefined };
    }
    if (first === '[') return depth + 1 < MAX_DEPTH ? this.#list(at, depth + 1) : null;
    const string = this.#match(STRING, at);
    if (string !== null) return { end: at + string.length, value: JSON.parse(string) };
    const constant = CONSTANTS.find(([name]) => this.#text.startsWith(name, at));
    if (constant !== undefined) return { end: at + constant[0].length, value: constant[1] };
    const number = this.#match(NUMBER, at);
    return number === null ? null : { end: at + number.length, value: Number(number) };
  }

  #list(start: number, depth: number): ReadValue | null {
    let at = this.#skip(start + 1);
    if (this.#text[at] === ']') return { end: at + 1, value: undefined };
    for (;;) {
      const value = this.#value(at, depth);
      if (value === null) return null;
      at = this.#skip(value.end);
      if (this.#text[at] === ']') return { end: at + 1, value: undefined };
      if (this.#text[at] !== ',') return null;
      at = this.#skip(at + 1);
    }
  }

  #skip(at: number): number {
    return at + this.#match(WHITESPACE, at)!.length;
  }

  #match(pattern: RegExp, at: number): string | null {
    pattern.lastIndex = at;
    return pattern.exec(this.#text)?.[0] ?? null;
  }
}
