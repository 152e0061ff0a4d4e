import { readExactJson } from '../core/read-json.ts';

/** The result of parsing a server's answer. `isJson`: a body that is no JSON may be cut off, so that a retry may succeed; a wrong shape stays wrong. */
export type ParsedAnswer<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string; readonly isJson: boolean };

/** Parses a JSON body. `read` returns the value, or a description of the fault in the shape. */
export function parseAnswer<T extends object>(body: Buffer, read: (json: unknown) => T | string): ParsedAnswer<T> {
  let json: unknown;
  try {
    json = readExactJson(body.toString('utf8'));
  } catch (error) {
    return { ok: false, problem: `expected JSON: ${(error as Error).message}`, isJson: false };
  }
  const value = read(json);
  return typeof value === 'string' ? { ok: false, problem: value, isJson: true } : { ok: true, value };
}
