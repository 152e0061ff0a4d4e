/** What is wrong with the body of a request, in the two ways in which vLLM tells it. */
import type { XStatic } from 'typebox/schema';
import { schemaCheck } from '../schema-check.ts';

export interface RequestProblem {
  readonly message: string;
  /** `body.max_tokens` of a wrong type, `max_tokens` of a wrong value; null where no single field is to blame. */
  readonly param: string | null;
  /** vLLM calls bodies of the wrong shape the former, wrong values the latter. */
  readonly type: 'Bad Request' | 'BadRequestError';
}

export type Parsed<T> = { readonly ok: true; readonly request: T } | { readonly ok: false; readonly problem: RequestProblem };

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Levels of lists and objects in one request: what templates and tools need, and few enough for code that recurses over them. */
const MAX_DEPTH = 64;

/** Throws this inside a parser; `parsed` turns it into the outcome. */
class ProblemFound extends Error {
  readonly problem: RequestProblem;

  constructor(problem: RequestProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

/** Runs a parser whose checks end it by `wrongShape` and `wrongValue`. */
export function parsed<T>(parse: () => T): Parsed<T> {
  try {
    return { ok: true, request: parse() };
  } catch (error) {
    if (error instanceof ProblemFound) return { ok: false, problem: error.problem };
    throw error;
  }
}

/** Ends the parser: the body is not of the shape that the route takes. `path` is that of the field, `prompt.0`; empty for the body itself. */
export function wrongShape(path: string, expectation: string): never {
  const where = path === '' ? 'body' : `body.${path}`;
  throw new ProblemFound({ message: `1 validation error: ${where}: expected ${expectation}`, param: where, type: 'Bad Request' });
}

/** Ends the parser: a field whose value cannot be. */
export function wrongValue(param: string | null, message: string, value?: unknown): never {
  const details = [param === null ? [] : [`parameter=${param}`], value === undefined ? [] : [`value=${shown(value)}`]].flat();
  throw new ProblemFound({ message: details.length === 0 ? message : `${message} (${details.join(', ')})`, param, type: 'BadRequestError' });
}

/** The body as an object of the schema's shape, not nested without end; ends the parser otherwise. */
export function checkedFields<const S extends object>(body: unknown, schema: S): Fields & XStatic<S> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) wrongShape('', `a JSON object, got ${kindOf(body)}`);
  const check = schemaCheck<XStatic<S>>(schema);
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
  return body as unknown as Fields & XStatic<S>;
}

/** Ends the parser where lists and objects lie deeper than any template needs. */
export function checkDepth(path: string, value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) wrongShape(path, `at most ${MAX_DEPTH} levels of lists and objects, got more`);
    level = level.flatMap((inner) => (typeof inner === 'object' && inner !== null ? Object.values(inner) : []));
  }
}

/** Says the value's kind, never the value: it may be huge, deep or private. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function shown(value: unknown): string {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : kindOf(value);
}
