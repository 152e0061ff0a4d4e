/** What this server answered against what a real vLLM did: status apart, the same fields, the same text, the same log-probs within 2e-5. */
import type { JsonAnswer } from './nano-server.ts';
import type { Probe } from './vllm-probes.ts';

export interface RecordedAnswer {
  readonly status: number;
  readonly answer: string;
}

/** What must be equal, ours first. */
export function comparisons(ours: JsonAnswer, theirs: RecordedAnswer, differs?: Probe['differs']): [unknown, unknown][] {
  const body = parsedOr(theirs.answer);
  const [isOurs, isTheirs] = [ours.status === 200, theirs.status === 200];
  // If one of the two has no such route, or vLLM succeeds, there is nothing to compare.
  if (isOurs !== isTheirs) return [[ours.body.error.code, differs!.status]];
  if (ours.status === 404 && differs !== undefined) return [[ours.body, { detail: 'Not Found' }]];
  const shapes: [unknown, unknown] = [shapeOf(ours.body ?? ours.text), shapeOf(body)];
  if (isTheirs) {
    const [own, wanted] = [ours.body ?? ours.text, differs?.text === undefined ? body : withText(body, differs.text)].map(comparable);
    return [shapes, [skeleton(own), skeleton(wanted)], [largestDifference(own, wanted) < 2e-5, true]];
  }
  if (!isError(body)) return [[ours.body, body]];
  const { message, ...error } = ours.body.error as ErrorBody['error'] & { readonly message: string };
  const { type, param } = body.error;
  return [
    shapes,
    [
      { ...error, hasMessage: message !== '' },
      { type, param, ...differs?.error, code: ours.status, hasMessage: true },
    ],
  ];
}

function withText(body: unknown, text: string): unknown {
  const { choices, ...rest } = body as { choices: [object] };
  return { ...rest, choices: [{ ...choices[0], text }] };
}

type ErrorBody = { readonly error: { readonly type: string; readonly param: string | null } };

function isError(body: unknown): body is ErrorBody {
  return typeof body === 'object' && body !== null && 'error' in body;
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Keys and types: numbers and strings stand for all of their kind, and lists for the kinds in them. */
export function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return [...new Set(value.map((item) => JSON.stringify(shapeOf(item))))].toSorted();
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  // A param may be null for one of two good reasons.
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === 'param' ? 'param' : shapeOf(inner)]));
}

/** Names and times that differ with every answer. */
const OWN = new Set(['id', 'created', 'system_fingerprint', 'version', 'cached_tokens', 'created_cache_tokens']);

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, inner]) => !OWN.has(key) || Array.isArray(inner))
      .map(([key, inner]) => [key, comparable(inner)]),
  );
}

/** Without the log-probs. */
function skeleton(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, inner: unknown) => (isFraction(inner) ? 0 : inner)) ?? 'null') as unknown;
}

/** The largest difference between the log-probs of two values with the same skeleton. */
function largestDifference(a: unknown, b: unknown): number {
  const others = fractions(b);
  return Math.max(0, ...fractions(a).map((value, i) => Math.abs(value - others[i]!)));
}

function fractions(value: unknown): number[] {
  if (isFraction(value)) return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(fractions) : [];
}

function isFraction(value: unknown): value is number {
  return typeof value === 'number' && !Number.isInteger(value);
}
