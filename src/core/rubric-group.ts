/** Several rubrics on the same rollouts. Rewards are added, and so are metrics of the same name. Each rubric keeps its own parser. (verifiers: RubricGroup) */
import type { Row } from './dataset.ts';
import { ConfigError, VfError } from './errors.ts';
import { readsThoughts } from './reads-thoughts.ts';
import { type MetricDisplay, type RewardContext, Rubric, type Score, type ScoringRunner } from './rubric.ts';

/**
 * @example
 * new RubricGroup([exactMatchRubric, new JudgeRubric({ ... })])
 */
export class RubricGroup<R extends Row = Row> extends Rubric<R> {
  readonly rubrics: readonly Rubric<R>[];

  constructor(rubrics: readonly Rubric<R>[]) {
    const [first] = rubrics;
    if (first === undefined) throw new ConfigError('The group of rubrics is empty. Give it at least one rubric.');
    super({ funcs: [], parser: first.parser });
    this.rubrics = rubrics;
  }

  /** True if one of the rubrics reads thoughts: all of them see the same text. */
  override get readsThoughts(): boolean {
    return this.rubrics.some((rubric) => rubric.readsThoughts);
  }

  /** A rubric of a group of environments decides it for each row. */
  override readsThoughtsOf(row: R): boolean {
    return this.rubrics.some((rubric) => readsThoughts(rubric, row));
  }

  override get names(): readonly string[] {
    return [...new Set(this.rubrics.flatMap(({ names }) => names))];
  }

  override get rewardNames(): readonly string[] {
    return [...new Set(this.rubrics.flatMap(({ rewardNames }) => rewardNames))];
  }

  /** If rubrics give one name different weights, the last one counts. */
  override get weights(): ReadonlyMap<string, number> {
    return new Map(this.rubrics.flatMap(({ weights }) => [...weights]));
  }

  override get displays(): ReadonlyMap<string, MetricDisplay> {
    return new Map(this.rubrics.flatMap(({ displays }) => [...displays]));
  }

  override get hasGroupRewards(): boolean {
    return this.rubrics.some(({ hasGroupRewards }) => hasGroupRewards);
  }

  override extend(funcs: ConstructorParameters<typeof Rubric<R>>[0]['funcs']): Rubric<R> {
    return new RubricGroup([...this.rubrics, new Rubric({ funcs, parser: this.parser })]);
  }

  override async settleGroup(contexts: readonly RewardContext<R>[], run?: ScoringRunner): Promise<readonly (Score | VfError)[]> {
    const all: (readonly (Score | VfError)[])[] = [];
    for (const rubric of this.rubrics) {
      const own = contexts.map((context) => ({ ...context, parser: rubric.parser }));
      all.push(await rubric.settleGroup(own, run));
    }
    return contexts.map((_, i) => sumOf(all.map((outcomes) => outcomes[i]!)));
  }
}

function sumOf(outcomes: readonly (Score | VfError)[]): Score | VfError {
  let reward = 0;
  const metrics: Record<string, number> = {};
  const metricErrors: Record<string, string> = {};
  for (const outcome of outcomes) {
    if (outcome instanceof VfError) return outcome;
    reward += outcome.reward;
    for (const [name, value] of Object.entries(outcome.metrics)) metrics[name] = (metrics[name] ?? 0) + value;
    Object.assign(metricErrors, outcome.metricErrors);
  }
  const failed = Object.keys(metricErrors);
  // A sum without one of its parts would be another metric.
  for (const name of failed) delete metrics[name];
  return { reward, metrics, ...(failed.length === 0 ? {} : { metricErrors }) };
}
