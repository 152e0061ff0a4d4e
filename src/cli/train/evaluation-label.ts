import type { Environment } from '../../core/environment.ts';

/** What the rows of evaluations are called: `held-out` where the run does not train on them. */
export type EvaluationLabel = 'held-out' | 'evaluation';

/** Judged by the number of rows and the first one: a data set without a split is both. */
export function evaluationLabel({ train }: Pick<Environment, 'train'>, evaluation: Pick<Environment, 'eval'>): EvaluationLabel {
  const isSame = evaluation.eval.length === train.length && evaluation.eval.at(0).exampleId === train.at(0).exampleId;
  return isSame ? 'evaluation' : 'held-out';
}
