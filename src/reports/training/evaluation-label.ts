import { countTrainedRows } from '../../core/trained-rows.ts';
import type { Environment } from '../../core/environment.ts';
import { trainingRows } from '../../core/training-rows.ts';
import { countText } from '../text/number-text.ts';

/** Name of the evaluation rows: `held-out` if the run trains on none of them. */
export type EvaluationLabel = 'held-out' | 'evaluation';

export interface EvaluatedRows {
  readonly label: EvaluationLabel;
  /** Says how many of the rows are trained on; null if none are. */
  readonly notice: string | null;
}

/** @param examples the number of rows that are played, -1 for all. Without training rows, all are held out */
export function evaluatedRows(environment: Pick<Environment, 'train'>, evaluation: Pick<Environment, 'eval'>, examples = -1): EvaluatedRows {
  const { length } = evaluation.eval;
  const played = evaluation.eval.take(examples === -1 ? length : Math.min(examples, length));
  const trained = countTrainedRows(trainingRows(environment) ?? [], played);
  if (trained === 0) return { label: 'held-out', notice: null };
  const which =
    trained === played.length
      ? 'The evaluation rows are training rows'
      : `${countText(trained)} of the ${countText(played.length)} evaluation rows ${trained === 1 ? 'is also a training row' : 'are also training rows'}`;
  return { label: 'evaluation', notice: `${which}; set environment.eval_args, or divide the rows, so that evaluations measure generalisation.` };
}
