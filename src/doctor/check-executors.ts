/** Checks which sandboxes for programs start here: opens each and runs a program. */
import { CancelledError, ExecutionError, thrownText } from '../core/errors.ts';
import { DEFAULT_LIMITS, type ExecutorName } from '../execution/code-executor.ts';
import { openExecutor } from '../execution/open-executor.ts';
import { watchesJobs } from '../execution/process/job-watch.ts';
import { readPythonBinary } from '../execution/wasi/python-binary.ts';
import { factOf, factsIfLoaded } from '../registry/environment-facts.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { type Finding, missing, ok, skipped } from '../sessions/finding.ts';

const SANDBOXES = ['wasi', 'bubblewrap'] as const satisfies readonly ExecutorName[];
/** A loaded machine starts an interpreter late. */
const SECONDS = 30;

export async function checkExecutors(config: TrainingConfig | null, signal: AbortSignal): Promise<Finding[]> {
  const needed = await neededExecutor(config);
  const findings: Finding[] = [];
  for (const name of SANDBOXES) findings.push(await checkExecutor(name, needed === name, signal));
  return findings;
}

/** The executor that the run uses; null if it runs no programs. */
async function neededExecutor(config: TrainingConfig | null): Promise<string | null> {
  if (config === null) return null;
  const { id, args } = config.environment;
  return factOf((await factsIfLoaded(id)).executor, args);
}

/** WebAssembly has one memory. */
function memoryBound(name: ExecutorName): string {
  if (name === 'wasi') return '';
  return watchesJobs()
    ? '; memory is limited for all processes of a program together'
    : '; memory is limited for each process of a program alone, since /proc does not list its children here';
}

async function checkExecutor(name: ExecutorName, isNeeded: boolean, signal: AbortSignal): Promise<Finding> {
  const startedAtMs = performance.now();
  try {
    if (name === 'wasi' && !isNeeded) {
      // The start takes a second, for which most runs need not wait.
      await readPythonBinary();
      return ok(name, 'sandbox for programs: Python is installed and is the build that was tested');
    }
    const executor = await openExecutor(name, { workers: 1 });
    try {
      const job = { code: 'def f(a): return a', calls: ['1'], hashSeed: 0, limits: { ...DEFAULT_LIMITS, seconds: SECONDS } };
      const result = await executor.run(job, { signal });
      if (result.kind !== 'ran') throw new ExecutionError(`It runs no program: ${result.detail}`);
      const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(2);
      return ok(name, `sandbox for programs: Python ${executor.capabilities.python}; first program after ${seconds} s${memoryBound(name)}`);
    } finally {
      await executor.close();
    }
  } catch (error) {
    if (error instanceof CancelledError) throw error;
    const remedy = error instanceof ExecutionError ? error.remedy : null;
    const text = thrownText(error);
    if (isNeeded) return missing(name, text, remedy ?? 'set environment.args.execution to another executor');
    return skipped(name, `${text} (only environments that run programs need it)`);
  }
}
