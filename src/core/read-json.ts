/**
 * JSON.parse without excerpts in its errors. V8 quotes up to 20 characters of the text, which may contain part of a secret; redaction does not recognise
 * a truncated secret.
 */

/** As for JSON.parse; `source` is the text of a number, a string or a literal, which TypeScript does not declare yet. */
type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** Parses JSON. Throws a SyntaxError that quotes at most one character of the text, or what the reviver throws. */
export function readJson(text: string, reviver?: Reviver): unknown {
  try {
    return JSON.parse(text, reviver as (key: string, value: unknown) => unknown);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // No `cause`: it would contain the excerpt.
    throw new SyntaxError(withoutExcerpt(error.message));
  }
}

/** A number of so many digits, or with such an exponent, may be more than a double holds; a half surrogate is written as an escape. */
const NEEDS_CARE = /\d{16}|\d[eE]\+?\d{3}|\\u[dD][89a-fA-F]/;

interface ExactOptions {
  /** Tells whether a number under this key stands for words: it becomes its text, `1.0` for example. @default none does */
  readonly isWord?: (key: string) => boolean;
  /** Called for each other number that becomes text. */
  readonly onNumberAsText?: () => void;
}

/**
 * As `readJson`, for the data of others: an integer beyond 2^53, or a number beyond the range of a double, is read as text and so keeps its digits, because rounding
 * would make one id of two; half a surrogate becomes U+FFFD, because no file or request could hold it.
 */
export function readExactJson(text: string, { isWord, onNumberAsText }: ExactOptions = {}): unknown {
  const exact: Reviver = (key, value, { source }) => {
    if (typeof value === 'string') return value.toWellFormed();
    if (typeof value === 'number' && isWord?.(key) === true) return source;
    if (!isRounded(value, source)) return value;
    onNumberAsText?.();
    return source;
  };
  return readJson(text, isWord !== undefined || NEEDS_CARE.test(text) ? exact : undefined);
}

/** A reviver of JSON.parse for values that no text can stand for. It throws RangeError for a number that would lose digits. */
export const refuseRounded: Reviver = (_key, value, { source }) => {
  if (isRounded(value, source) && String(value) !== source)
    throw new RangeError(`the ${/^-?\d+$/.test(source!) ? 'integer' : 'number'} ${source!.slice(0, 40)} is beyond 2^53; write it as text`);
  return value;
};

/** Tells whether two such numbers of a text can be the same number: integers beyond 2^53, and what becomes Infinity. */
function isRounded(value: unknown, source: string | undefined): boolean {
  return typeof value === 'number' && source !== undefined && !Number.isSafeInteger(value) && (!Number.isFinite(value) || /^-?\d+$/.test(source));
}

/** A word of a command line: JSON, by `readExactJson`, or else itself. */
export function jsonOrText(word: string): unknown {
  try {
    return readExactJson(word);
  } catch (error) {
    // It is nested too deeply to be visited value by value; its reader refuses it.
    return error instanceof RangeError ? readJson(word) : word;
  }
}

/** A message of JSON.parse with only the character that it stopped at, not the text around it; any other message unchanged. */
export function withoutExcerpt(message: string): string {
  if (!message.endsWith('is not valid JSON')) return message;
  return /^Unexpected token '.{1,2}?'/su.exec(message)?.[0] ?? 'Unexpected token';
}
