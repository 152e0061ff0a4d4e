/** Vector files: `{function, note, cases: [{id, input, output, tags}]}`, as the script that ran upstream wrote them, and what comparing one gives. */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

export interface VectorCase {
  readonly id: string;
  readonly input: unknown;
  readonly output: unknown;
  readonly tags: readonly string[];
}

export interface Adapter {
  /** What the port gives for a case. */
  actual(input: never, testCase: VectorCase): unknown;
  /** Why a case that differs is a declared difference; undefined where it is not one. */
  readonly declared?: (testCase: VectorCase) => string | undefined;
}

export interface CaseResult {
  readonly id: string;
  readonly outcome: 'passed' | 'failed' | 'declared';
  /** Why it failed or was declared. */
  readonly detail: string;
}

/** Relative difference that two numbers may have: float arithmetic in another order. Integers in practice compare exactly. */
const TOLERANCE = 1e-9;

/** Whether the port's value is upstream's. Non-finite numbers are written as text in the vectors. */
export function isSame(actual: unknown, expected: unknown): boolean {
  if (typeof actual === 'number') {
    if (!Number.isFinite(actual)) return String(actual) === expected;
    return typeof expected === 'number' && Math.abs(actual - expected) <= TOLERANCE * Math.max(1, Math.abs(expected));
  }
  if (typeof actual !== 'object' || typeof expected !== 'object' || actual === null || expected === null) return actual === expected;
  if (Array.isArray(actual) !== Array.isArray(expected)) return false;
  const [a, e] = [actual as Record<string, unknown>, expected as Record<string, unknown>];
  const keys = Object.keys(e);
  return keys.length === Object.keys(a).length && keys.every((key) => Object.hasOwn(a, key) && isSame(a[key], e[key]));
}

/** Plays one case. What the adapter throws is a failure of the case. */
export async function playCase(adapter: Adapter, testCase: VectorCase): Promise<CaseResult> {
  const { id } = testCase;
  let actual: unknown;
  try {
    actual = await adapter.actual(testCase.input as never, testCase);
  } catch (error) {
    return { id, outcome: 'failed', detail: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  if (isSame(actual, testCase.output)) return { id, outcome: 'passed', detail: '' };
  const reason = adapter.declared?.(testCase);
  if (reason !== undefined) return { id, outcome: 'declared', detail: reason };
  return { id, outcome: 'failed', detail: firstDifference(actual, testCase.output, 'output') };
}

function firstDifference(actual: unknown, expected: unknown, where: string): string {
  if (typeof actual === 'object' && typeof expected === 'object' && actual && expected) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const [a, e] = [(actual as Record<string, unknown>)[key], (expected as Record<string, unknown>)[key]];
      if (!isSame(a, e)) return firstDifference(a, e, `${where}.${key}`);
    }
  }
  return `${where}: expected ${show(expected)}, got ${show(actual)}`;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 400 ? `${text.slice(0, 200)}...${text.slice(-200)}` : text;
}

/** Names of the vector files of a directory, sorted. */
export async function listVectors(directory: string): Promise<string[]> {
  const files = await readdir(directory);
  return files
    .filter((f) => f.endsWith('.json') && f !== 'manifest.json')
    .map((f) => f.slice(0, -'.json'.length))
    .toSorted();
}

export async function readVectors(directory: string, name: string): Promise<readonly VectorCase[]> {
  const json: unknown = JSON.parse(await readFile(path.join(directory, `${name}.json`), 'utf8'));
  const cases = (json as { cases?: unknown } | null)?.cases;
  if (!Array.isArray(cases) || cases.length === 0) throw new Error(`Expected ${name}.json to hold {"cases": [...]} with at least one case`);
  return cases as VectorCase[];
}
