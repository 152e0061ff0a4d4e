/**
 * JSON.parse without its excerpts. V8 repeats up to 20 characters of the text in its message, and what comes from a server, a file or a command line may
 * hold a secret there that no redaction recognises, because the excerpt cuts it.
 */

/** The value of a JSON text. Throws a SyntaxError that says where the text is wrong and quotes none of it. */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // No `cause`: it would carry the excerpt on.
    throw new SyntaxError(withoutExcerpt((error as Error).message));
  }
}

/** The message of JSON.parse with the one character that it stopped at and without the text around it; any other message as it is. */
export function withoutExcerpt(message: string): string {
  if (!message.endsWith('is not valid JSON')) return message;
  return /^Unexpected token '.{1,2}?'/su.exec(message)?.[0] ?? 'Unexpected token';
}

/** Far more than any argument needs, far less than what exhausts the stack of those who walk through it. */
export const MOST_LEVELS = 64;

/** True when lists and objects are nested more than `most` levels deep. Uses no recursion, so that hostile JSON cannot exhaust the stack. */
export function isDeeperThan(value: unknown, most: number): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > most) return true;
    level = level.flatMap((item) => Object.values(item).filter(isContainer));
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
