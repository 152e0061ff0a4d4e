/** Reads the fields of a query. Throws ViewRequestError for a field that is missing or no number. */
import type { Context } from 'hono';
import { ViewRequestError } from '../../viewing/view-problem.ts';

export function requiredText(c: Context, name: string): string {
  const text = c.req.query(name);
  if (text === undefined) throw new ViewRequestError(400, `The query has no "${name}".`);
  return text;
}

export function optionalNumber(c: Context, name: string, { whole = false } = {}): number | undefined {
  const text = c.req.query(name);
  if (text === undefined) return undefined;
  const value = text.trim() === '' ? NaN : Number(text);
  const isFine = whole ? Number.isSafeInteger(value) && value >= 0 : Number.isFinite(value);
  if (!isFine)
    throw new ViewRequestError(
      400,
      `"${name}" must be ${whole ? 'a whole number of 0 or more' : 'a number'}, got ${JSON.stringify(text.slice(0, 40))}.`,
    );
  return value;
}

export function optionalFlag(c: Context, name: string): boolean | undefined {
  const text = c.req.query(name);
  if (text === undefined) return undefined;
  if (text !== 'true' && text !== 'false') throw new ViewRequestError(400, `"${name}" must be true or false.`);
  return text === 'true';
}
