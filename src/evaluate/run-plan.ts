/** The rollouts of a run, and which of them are already on disk. */
import { stat } from 'node:fs/promises';
import { ifThere } from '../files/if-there.ts';
import type { Row } from '../core/dataset.ts';
import { ConfigError, ResultsError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import type { RolloutGroup } from '../rollouts/run-rollouts.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { folderProblem, makeFolder } from '../files/make-folder.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import type { EvaluationOptions } from './evaluation-options.ts';
import { runFiles } from './run-files.ts';
import type { RunPlan } from './run-writer.ts';

/** A plan, and the number of recorded rollouts that it will play again. */
export interface OpenPlan<R extends Row> extends RunPlan<R> {
  readonly redone: number;
  /** Lines that were left out because they repeat others. */
  readonly repeated: readonly string[];
}

/** Throws ConfigError for the first number that is not allowed, under the name that `evaluate` has for it. */
export function checkNumbers<R extends Row>(options: EvaluationOptions<R>): void {
  const { numExamples, rolloutsPerExample, maxConcurrent, maxRetries, timeoutMs, seed, shuffleSeed } = options;
  const { maxScoring = maxConcurrent, scoringTimeoutMs = timeoutMs, cost } = options;
  const isPositive = (value: number | null) => value === null || (Number.isFinite(value) && value > 0);
  const check = (isRight: boolean, name: string, expected: string, value: unknown) => {
    if (!isRight) throw new ConfigError(`${name} must be ${expected}, got ${kindOrNumber(value)}`);
  };
  check(numExamples === -1 || isCount(numExamples), 'rows', 'an integer of at least 1, or -1 for all', numExamples);
  check(isCount(rolloutsPerExample), 'rolloutsPerRow', 'an integer of at least 1', rolloutsPerExample);
  check(isCount(maxConcurrent), 'maxConcurrent', 'an integer of at least 1', maxConcurrent);
  check(isCount(maxScoring), 'maxScoring', 'an integer of at least 1', maxScoring);
  for (const [name, value] of Object.entries({ maxRetries, seed, shuffleSeed }))
    check(value === 0 || isCount(value), name, 'an integer of at least 0', value);
  for (const [name, value] of Object.entries({ timeoutMs, scoringTimeoutMs })) check(isPositive(value), name, 'a number above 0 or null', value);
  const limit = cost?.limit ?? null;
  check(isPositive(limit), 'maxCostUsd', 'a number above 0 or null', limit);
}

/** The rows to play, in the order in which their rollouts begin. */
export function selectRows<R extends Row>({ environment, numExamples, shuffle, shuffleSeed }: EvaluationOptions<R>): readonly R[] {
  const all = shuffle ? environment.eval.shuffle(Random.fromSeed(shuffleSeed)) : environment.eval;
  const rows = [...(numExamples === -1 ? all : all.take(numExamples))];
  if (rows.length === 0) throw new ConfigError(`${environment.eval.name} has no rows to evaluate`);
  return rows;
}

/** The number of rollouts that are scored together, and so kept or played again together: group rewards of a part differ from those of the whole. */
export function groupSize<R extends Row>({ environment, independentScoring, rolloutsPerExample }: EvaluationOptions<R>): number {
  return environment.rubric.hasGroupRewards && !independentScoring ? rolloutsPerExample : 1;
}

/** Throws ConfigError if the directory cannot be created, ResultsError if the disk is full. */
export function makeDirectory(directory: string): void {
  try {
    makeFolder(directory);
  } catch (cause) {
    const { message } = cause as Error;
    if (isDiskFull(cause)) throw new ResultsError(`Could not make the run directory ${directory}: the disk is full. Free some space.`, { cause });
    throw new ConfigError(`Could not make the run directory ${directory}: ${folderProblem(directory) ?? message}. Choose another output folder.`, {
      cause,
    });
  }
}

/** Throws ConfigError if the directory already holds a run. */
export async function newPlan<R extends Row>({ outputDir }: EvaluationOptions<R>, rows: readonly R[]): Promise<OpenPlan<R>> {
  const { metadata, results } = runFiles(outputDir);
  for (const path of [metadata, results]) {
    const found = await ifThere(path, (file) => stat(file));
    // An empty file is not a run: its process died before it began.
    if (found && found.size > 0) throw new ConfigError(`${outputDir} already holds a run: ${path}. Resume it, or choose another directory.`);
  }
  return { rows, kept: [], redone: 0, repeated: [], sessions: [], startedAt: new Date().toISOString() };
}

/** The rollouts that are not on disk yet. */
export function missingGroups<R extends Row>({ rows, kept }: RunPlan<R>, rolloutsPerExample: number): RolloutGroup<R>[] {
  const done = new Set(kept.map((rollout) => rollout.rolloutId));
  const all = Array.from({ length: rolloutsPerExample }, (_, index) => index);
  return rows
    .map((row) => ({ row, indices: all.filter((index) => !done.has(`${row.exampleId}/${index}`)) }))
    .filter(({ indices }) => indices.length > 0);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}
