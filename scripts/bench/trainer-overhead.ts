/**
 * Measures the trainer's own cost in a finished run: its CPU time outside sampling, forward and backward, as a share of each step's wall clock.
 *
 *     npm run bench -- trainer-overhead RUN [--json] [--strict]
 *
 * RUN is a run's folder or its metrics.jsonl. If a step was measured twice (resumed after a kill), its last line counts. `--strict`: exit 1 if the
 * median is over the bar.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { isOver, type Measurement, measurement, type Pair, report } from './measurement.ts';

const BAR = 0.05;
const about = { unit: 's', against: 'wall clock of the step' };

interface StepLine {
  readonly kind: string;
  readonly step: number;
  readonly overhead_cpu_seconds?: number | null;
  readonly step_seconds?: number | null;
}

const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' }, strict: { type: 'boolean' } }, allowPositionals: true });
const [run] = positionals;
if (run === undefined || positionals.length > 1) fail(`Pass one run folder or metrics.jsonl, got ${positionals.length}.`);
const path = isFolder(run) ? join(run, 'metrics.jsonl') : run;
const steps = measuredSteps(path);
if (steps.length === 0) fail(`${path} has no steps with overhead_cpu_seconds and step_seconds.`);
const median = measurement({ ...about, what: `trainer overhead, CPU of a step, ${steps.length} steps`, bar: BAR }, steps);
const worst = steps.reduce((most, step) => (step.ours / step.peer > most.ours / most.peer ? step : most));
const measurements: Measurement[] = [median, measurement({ ...about, what: 'the step with the largest share', bar: null }, [worst])];
report(measurements);
if (values.strict && isOver(median)) process.exitCode = 1;

/** `ours` is the trainer's CPU seconds, `peer` the seconds of the whole step. */
function measuredSteps(file: string): Pair[] {
  const byStep = new Map<number, Pair>();
  for (const line of readLines(file)) {
    const { kind, step, overhead_cpu_seconds: ours, step_seconds: peer } = JSON.parse(line) as StepLine;
    if (kind === 'step' && typeof ours === 'number' && typeof peer === 'number' && peer > 0) byStep.set(step, { ours, peer });
  }
  return [...byStep.values()];
}

/** Drops a last line without a line feed, which a kill has truncated. */
function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1);
  } catch (error) {
    return fail(`Could not read ${file}: ${(error as Error).message}`);
  }
}

function isFolder(target: string): boolean {
  return statSync(target, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function fail(reason: string): never {
  process.stderr.write(`${reason}\n`);
  process.exit(2);
}
