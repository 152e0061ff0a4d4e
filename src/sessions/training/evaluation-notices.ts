import type { Environment } from '../../core/environment.ts';
import { SAME_ROWS_NOTICE } from '../../core/training-rows.ts';
import type { EvaluatedRows } from '../../reports/training/evaluation-label.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';

/** The notices of the environment, and the run's own about evaluation rows that are trained on. @param rows null if nothing is played */
export function evaluationNotices({ notices = [] }: Environment, rows: EvaluatedRows | null, { evaluation }: TrainingConfig): string[] {
  const others = rows === null ? notices : notices.filter((line) => line !== SAME_ROWS_NOTICE);
  return evaluation.every === 0 || !rows?.notice ? [...others] : [...others, rows.notice];
}
