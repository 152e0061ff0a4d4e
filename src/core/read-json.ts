/**
 * JSON.parse without excerpts in its errors. V8 quotes up to 20 characters of the text, which may contain part of a secret; redaction does not recognise
 * a truncated secret.
 */

/** As for JSON.parse; `source` is the text of a number, a string or a literal, which TypeScript does not declare yet. */
type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** Parses JSON. Throws a SyntaxError that quotes at most one character of the text. */
export function readJson(text: string, reviver?: Reviver): unknown {
  try {
    return JSON.parse(text, reviver as (key: string, value: unknown) => unknown);
  } catch (error) {
    // No `cause`: it would contain the excerpt.
    throw new SyntaxError(withoutExcerpt((error as Error).message));
  }
}

/** A message of JSON.parse with only the character that it stopped at, not the text around it; any other message unchanged. */
export function withoutExcerpt(message: string): string {
  if (!message.endsWith('is not valid JSON')) return message;
  return /^Unexpected token '.{1,2}?'/su.exec(message)?.[0] ?? 'Unexpected token';
}
