/** The summary as `--json` prints it: snake_case keys, names of metrics and errors as they are. */
import type { Summary } from '../../schemas/summary.ts';

/** Maps whose keys are names of other people's things. */
const NAMED = new Set(['metrics', 'stopConditions', 'errors', 'errorExamples', 'passAtK', 'passAllK']);
/** Rows hold whatever their data set holds. */
const VERBATIM = new Set(['answer']);

export function summaryJson(summary: Summary): Record<string, unknown> {
  return snakeCaseKeys(summary) as Record<string, unknown>;
}

function snakeCaseKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCaseKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const kept = VERBATIM.has(key) ? inner : NAMED.has(key) ? mapValues(inner as object) : snakeCaseKeys(inner);
      return [snakeCase(key), kept];
    }),
  );
}

function mapValues(named: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(named).map(([name, inner]) => [name, snakeCaseKeys(inner)]));
}

/** `passAtK` is `pass_at_k`. */
function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
