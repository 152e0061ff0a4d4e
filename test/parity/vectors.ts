/**
 * Reads and compares vector files, written by scripts that ran upstream (`{function, note, cases: [{id, input, output, tags}]}`) and torch (`{loss,
 * formula, cases: [{name, config, inputs, outputs}]}`).
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { readRegularFile } from '../../src/files/regular-file.ts';

export interface VectorCase {
  readonly id: string;
  readonly input: unknown;
  readonly output: unknown;
  readonly tags: readonly string[];
}

/** A case of torch's vectors. */
interface LossCase {
  readonly name: string;
  readonly config: unknown;
  readonly inputs: unknown;
  readonly outputs: unknown;
}

export interface Adapter {
  /** The port's result for a case. */
  actual(input: never, testCase: VectorCase): unknown;
  /** Why a difference is declared; undefined if it is not. */
  readonly declared?: (testCase: VectorCase) => string | undefined;
  /** For vectors that upstream computed partly in float32. @default 1e-9 */
  readonly tolerance?: number;
}

export interface CaseResult {
  readonly id: string;
  readonly outcome: 'passed' | 'failed' | 'declared';
  /** Why it failed or was declared. */
  readonly detail: string;
}

/** Allowed relative difference, for float arithmetic in another order. Practically exact for integers. */
const TOLERANCE = 1e-9;

/** Whether the port's value equals upstream's. Vectors contain non-finite numbers as strings. */
export function isSame(actual: unknown, expected: unknown, tolerance = TOLERANCE): boolean {
  if (typeof actual === 'number') {
    if (!Number.isFinite(actual)) return String(actual) === expected;
    return typeof expected === 'number' && Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected));
  }
  if (typeof actual !== 'object' || typeof expected !== 'object' || actual === null || expected === null) return actual === expected;
  if (Array.isArray(actual) !== Array.isArray(expected)) return false;
  const [a, e] = [actual as Record<string, unknown>, expected as Record<string, unknown>];
  const keys = Object.keys(e);
  return keys.length === Object.keys(a).length && keys.every((key) => Object.hasOwn(a, key) && isSame(a[key], e[key], tolerance));
}

/** Checks one case; it fails if the adapter throws. */
export async function playCase(adapter: Adapter, testCase: VectorCase): Promise<CaseResult> {
  const { id } = testCase;
  let actual: unknown;
  try {
    actual = await adapter.actual(testCase.input as never, testCase);
  } catch (error) {
    return { id, outcome: 'failed', detail: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
  if (isSame(actual, testCase.output, adapter.tolerance)) return { id, outcome: 'passed', detail: '' };
  const reason = adapter.declared?.(testCase);
  if (reason !== undefined) return { id, outcome: 'declared', detail: reason };
  return { id, outcome: 'failed', detail: firstDifference(actual, testCase.output, 'output', adapter.tolerance) };
}

function firstDifference(actual: unknown, expected: unknown, where: string, tolerance?: number): string {
  if (typeof actual === 'object' && typeof expected === 'object' && actual && expected) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const [a, e] = [(actual as Record<string, unknown>)[key], (expected as Record<string, unknown>)[key]];
      if (!isSame(a, e, tolerance)) return firstDifference(a, e, `${where}.${key}`, tolerance);
    }
  }
  return `${where}: expected ${show(expected)}, got ${show(actual)}`;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 400 ? `${text.slice(0, 200)}...${text.slice(-200)}` : text;
}

/** Files in the folder that are not vectors. */
const ABOUT_VECTORS = ['manifest.json', 'CROSSCHECK.json'];

/** Names of the vector files of a directory, sorted. */
export async function listVectors(directory: string): Promise<string[]> {
  const files = await readdir(directory);
  return files
    .filter((f) => f.endsWith('.json') && !ABOUT_VECTORS.includes(f))
    .map((f) => f.slice(0, -'.json'.length))
    .toSorted();
}

export async function readVectors(directory: string, name: string): Promise<readonly VectorCase[]> {
  const json: unknown = JSON.parse(await readRegularFile(path.join(directory, `${name}.json`)));
  const cases = (json as { cases?: unknown } | null)?.cases;
  if (!Array.isArray(cases) || cases.length === 0) throw new Error(`${name}.json must contain {"cases": [...]} with at least one case.`);
  const { loss } = json as { loss?: unknown };
  return loss === undefined ? (cases as VectorCase[]) : (cases as LossCase[]).map((c) => ({ id: c.name, input: c, output: c.outputs, tags: [] }));
}
