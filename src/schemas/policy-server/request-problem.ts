/** The fault of a request's body, in vLLM's two error formats. */
import type { XStatic } from 'typebox/schema';
import { isObject } from '../is-object.ts';
import { kindOf, kindOrNumber } from '../kind-of.ts';
import { schemaCheck } from '../schema-check.ts';

export interface RequestProblem {
  readonly message: string;
  /** `body.max_tokens` for a wrong type, `max_tokens` for a wrong value; null if no single field is at fault. */
  readonly param: string | null;
  /** vLLM uses the former for bodies of the wrong shape, the latter for wrong values. */
  readonly type: 'Bad Request' | 'BadRequestError';
}

export type Parsed<T> = { readonly ok: true; readonly request: T } | { readonly ok: false; readonly problem: RequestProblem };

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Nesting limit of a request: enough for templates and tools, and safe for recursive code. */
const MAX_DEPTH = 64;

/** Thrown inside a parser; `parsed` turns it into a result. */
class ProblemFound extends Error {
  readonly problem: RequestProblem;

  constructor(problem: RequestProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

/** Runs a parser that `wrongShape` and `wrongValue` may end. */
export function parsed<T>(parse: () => T): Parsed<T> {
  try {
    return { ok: true, request: parse() };
  } catch (error) {
    if (error instanceof ProblemFound) return { ok: false, problem: error.problem };
    throw error;
  }
}

/** Ends the parser: the body does not have the route's shape. `path` names the field, as in `prompt.0`; empty for the body itself. */
export function wrongShape(path: string, expectation: string): never {
  const where = path === '' ? 'body' : `body.${path}`;
  throw new ProblemFound({ message: `1 validation error: ${where}: expected ${expectation}`, param: where, type: 'Bad Request' });
}

/** Ends the parser: a field has an invalid value. */
export function wrongValue(param: string | null, message: string, value?: unknown): never {
  const details = [param === null ? [] : [`parameter=${param}`], value === undefined ? [] : [`value=${kindOrNumber(value)}`]].flat();
  throw new ProblemFound({ message: details.length === 0 ? message : `${message} (${details.join(', ')})`, param, type: 'BadRequestError' });
}

/** Returns the body as an object that fits the schema; ends the parser otherwise. */
export function checkedFields<const S extends object>(body: unknown, schema: S): Fields & XStatic<S> {
  if (!isObject(body)) wrongShape('', `a JSON object, got ${kindOf(body)}`);
  const check = schemaCheck(schema);
  if (!check(body)) {
    const { instancePath = '', message = 'a value of another kind', params = {} } = check.errors?.[0] ?? {};
    const missing = (params as { missingProperty?: string }).missingProperty;
    const path = instancePath.slice(1).replaceAll('/', '.');
    wrongShape(
      [path, missing ?? []]
        .flat()
        .filter((part) => part !== '')
        .join('.'),
      missing === undefined ? `a value that ${message}` : 'this field',
    );
  }
  return body;
}

/** Ends the parser if lists and objects are nested deeper than any template needs. */
export function checkDepth(path: string, value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) wrongShape(path, `at most ${MAX_DEPTH} levels of lists and objects, got more`);
    level = level.flatMap((inner) => (typeof inner === 'object' && inner !== null ? Object.values(inner) : []));
  }
}
