/** What chooses `best/` among the evaluations: the reward, or the metric that `checkpoint.best` names (`metric_for_best_model` of TRL). */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { BEST_KEYWORDS } from '../config/algorithm-rules.ts';
import type { MetricsRow } from '../training-observer.ts';
import { RUBRIC_PREFIX, TASK_PREFIX } from './metrics.ts';

export interface ChosenMetric {
  /** In the rows of evaluations, such as `rubric/em`. */
  readonly metric: string;
  readonly isLowerBetter: boolean;
}

const REWARD: ChosenMetric = { metric: 'reward_mean', isLowerBetter: false };
/** Metrics of an evaluation besides those of its rubric and tasks. */
const OF_ROLLOUTS: readonly string[] = ['truncated', 'turns_mean', 'tokens_per_rollout'];

export function chosenMetric({ best, greaterIsBetter }: Pick<TrainingConfig['checkpoint'], 'best' | 'greaterIsBetter'>): ChosenMetric {
  if (BEST_KEYWORDS.includes(best)) return REWARD;
  const isWhole = OF_ROLLOUTS.includes(best) || best.startsWith(RUBRIC_PREFIX) || best.startsWith(TASK_PREFIX);
  return { metric: isWhole ? best : `${RUBRIC_PREFIX}${best}`, isLowerBetter: !greaterIsBetter };
}

/** As a user names it: `em`. */
export function metricName(metric: string): string {
  return metric.startsWith(RUBRIC_PREFIX) ? metric.slice(RUBRIC_PREFIX.length) : metric;
}

/** Throws ConfigError if neither this evaluation nor an earlier one has the metric. One whose rollouts all failed has none. */
export function assertMeasured(best: string, { metric }: ChosenMetric, values: MetricsRow['values'], earlier: readonly MetricsRow[]): void {
  if (metric === REWARD.metric || metric in values || (values['rollouts'] ?? 0) === 0) return;
  if (earlier.some((row) => row.kind === 'evaluation' && metric in row.values)) return;
  const isNamed = (name: string) => OF_ROLLOUTS.includes(name) || name.startsWith(RUBRIC_PREFIX) || name.startsWith(TASK_PREFIX);
  const known = Object.keys(values).filter(isNamed).map(metricName).toSorted();
  throw new ConfigError(
    `checkpoint.best is "${best}", but the evaluation has no metric of this name${suggestion(best, known)}; use ${BEST_KEYWORDS.join(', ')}, or one of ${known.join(', ')}`,
  );
}
