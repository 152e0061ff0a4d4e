/** The rows of an environment for training, which may be missing: rows for evaluation never stand in for them. */
import type { Dataset, Row } from './dataset.ts';
import type { Environment } from './environment.ts';
import { ConfigError } from './errors.ts';

/** What an environment says if a data set has one split, or if both splits that were named are one. */
export const SAME_ROWS_NOTICE = 'The rows for training are also the rows for evaluation.';

/** The error of an environment that was made without `train`. */
export function noTrainingRows(id: string): ConfigError {
  return new ConfigError(
    `${id} has no rows to train on, only rows for evaluation. If loadEnvironment gave it, pass { purpose: 'training' } there; ` +
      'in an environment of your own, pass `train` to its constructor, with rows that are not in `eval`.',
  );
}

/** Null if the environment has none. Rethrows any other error of the environment. */
export function trainingRows<R extends Row>(environment: Pick<Environment<R>, 'train'>): Dataset<R> | null {
  try {
    return environment.train;
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** The first row for training; for evaluation if there is none for training. */
export function firstRow<R extends Row>(environment: Pick<Environment<R>, 'train' | 'eval'>): R {
  return (trainingRows(environment) ?? environment.eval).at(0);
}
