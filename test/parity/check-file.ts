import { ADAPTERS, SKIPPED_FILES } from './adapters.ts';
import { type CaseResult, playCase, readVectors, type VectorCase } from './vectors.ts';

export interface FileResult {
  /** Number of cases in the file. */
  readonly size: number;
  readonly cases: readonly CaseResult[];
  readonly skipped: boolean;
  /** Why the file was skipped, or why some of its cases are declared differences. */
  readonly note: string;
  /** Set if the file has no adapter or cannot be read. */
  readonly problem: string | null;
}

/** Checks every case of one vector file. */
export async function checkFile(directory: string, name: string): Promise<FileResult> {
  const none = { size: 0, cases: [], skipped: false, note: '' };
  let cases: readonly VectorCase[];
  try {
    cases = await readVectors(directory, name);
  } catch (error) {
    return { ...none, problem: error instanceof Error ? error.message : String(error) };
  }
  const size = cases.length;
  const reason = SKIPPED_FILES[name];
  if (reason !== undefined) return { ...none, size, skipped: true, note: reason, problem: null };
  const adapter = ADAPTERS[name];
  if (!adapter) return { ...none, size, problem: `There is no adapter for ${name}.json.` };
  const results: CaseResult[] = [];
  for (const testCase of cases) results.push(await playCase(adapter, testCase));
  return { size, cases: results, skipped: false, note: results.find((r) => r.outcome === 'declared')?.detail ?? '', problem: null };
}
