import type { Dataset, Row } from '../../core/dataset.ts';
import { ConfigError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';

/**
 * The rows of a step (from 1). Each pass over the data is shuffled separately and starts at a step boundary; rows left over at the end of a pass are skipped.
 * Depends only on seed and step, so a resumed run needs no cursor.
 */
export function rowsOfStep(train: Dataset, examplesPerStep: number, seed: number, step: number): Row[] {
  return placesOfStep(stepsPerPass(train, examplesPerStep), { rows: train.length, examplesPerStep, seed, step }).map((i) => train.at(i));
}

/** Throws ConfigError if the data have fewer rows than a step needs. */
export function stepsPerPass({ length, name }: Pick<Dataset, 'length' | 'name'>, examplesPerStep: number): number {
  const steps = Math.floor(length / examplesPerStep);
  if (steps > 0) return steps;
  if (length === 0) throw new ConfigError(`${name} has no rows to train on. Give the environment rows in its train data.`);
  throw new ConfigError(
    `rollouts.examples_per_step is ${examplesPerStep}, but ${name} has only ${length} ${length === 1 ? 'row' : 'rows'}; lower rollouts.examples_per_step or train on more rows`,
  );
}

/** Indices of the rows of a step, in a data set that takes `steps` steps a pass. */
export function placesOfStep(
  steps: number,
  { rows, examplesPerStep, seed, step }: { readonly rows: number; readonly examplesPerStep: number; readonly seed: number; readonly step: number },
): number[] {
  const pass = Math.floor((step - 1) / steps);
  const first = ((step - 1) % steps) * examplesPerStep;
  const order = Random.fromSeed(seed)
    .fork(`pass ${pass}`)
    .shuffle(Array.from({ length: rows }, (_, i) => i));
  return order.slice(first, first + examplesPerStep);
}

/** Rows that replace others of the step, in a seeded order: all of the data but the rows that the step has. */
export function refillRows(train: Dataset, { used, count, seed, step, round }: RefillPlan): Row[] {
  const taken = new Set(used.map(({ exampleId }) => exampleId));
  const order = Random.fromSeed(seed)
    .fork(`step ${step}, refill ${round}`)
    .shuffle(Array.from({ length: train.length }, (_, i) => i));
  const rows: Row[] = [];
  for (const i of order) {
    if (rows.length === count) break;
    const row = train.at(i);
    if (!taken.has(row.exampleId)) rows.push(row);
  }
  return rows;
}

export interface RefillPlan {
  /** Rows of the step so far. */
  readonly used: readonly Row[];
  readonly count: number;
  readonly seed: number;
  readonly step: number;
  /** From 1. */
  readonly round: number;
}
