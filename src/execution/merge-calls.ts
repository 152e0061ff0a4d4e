/** Jobs whose results are partly known. */
import type { CallResult, ExecutionJob, ExecutionResult } from './code-executor.ts';

/** Runs a job with only those calls that have no result yet, and puts the results together in order. @param known [calls], null for a call that must run */
export async function mergeCalls(
  known: readonly (CallResult | null)[],
  job: ExecutionJob,
  run: (rest: ExecutionJob) => Promise<ExecutionResult>,
): Promise<ExecutionResult> {
  const rest = { ...job, calls: job.calls.filter((_, i) => known[i] === null) };
  const isDone = rest.calls.length === 0 && job.calls.length > 0;
  const result = isDone ? ran([]) : await run(rest);
  if (result.kind !== 'ran' && rest.calls.length === job.calls.length) return result;
  const results = result.kind === 'ran' ? result.calls : rest.calls.map(() => ({ error: result.kind, message: result.detail }));
  const inOrder = results.values();
  return ran(known.map((each) => each ?? inOrder.next().value!));
}

export const ran = (calls: readonly CallResult[]): ExecutionResult => ({ kind: 'ran', calls });
