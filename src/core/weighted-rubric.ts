/** A rubric with other weights: its rewards and metrics are computed as before, and added up with the new weights. */
import { suggestion } from './closest-name.ts';
import type { Row } from './dataset.ts';
import { ConfigError, RewardError, type VfError } from './errors.ts';
import { readsThoughts } from './reads-thoughts.ts';
import { type MetricDisplay, type RewardContext, Rubric, type Score, type ScoringRunner } from './rubric.ts';

export type Weights = Readonly<Record<string, number>>;

export class WeightedRubric<R extends Row = Row> extends Rubric<R> {
  readonly #inner: Rubric<R>;
  readonly #changes: Weights;

  /** `changes`: new weights by name; the others stay. Throws ConfigError for a name that the rubric does not have. */
  constructor(inner: Rubric<R>, changes: Weights) {
    super({ funcs: [], parser: inner.parser });
    this.#inner = inner;
    this.#changes = changes;
    const unknown = Object.keys(changes).find((name) => !inner.names.includes(name));
    if (unknown === undefined) return;
    throw new ConfigError(`The rubric has no reward "${unknown}"${suggestion(unknown, inner.names)}. It has ${inner.names.join(', ')}.`);
  }

  override get readsThoughts(): boolean {
    return this.#inner.readsThoughts;
  }

  /** A rubric of a group of environments decides it for each row. */
  override readsThoughtsOf(row: R): boolean {
    return readsThoughts(this.#inner, row);
  }

  override get names(): readonly string[] {
    return this.#inner.names;
  }

  override get weights(): ReadonlyMap<string, number> {
    return new Map([...this.#inner.weights].map(([name, weight]) => [name, this.#changes[name] ?? weight]));
  }

  override get rewardNames(): readonly string[] {
    return [...this.weights].filter(([, weight]) => weight !== 0).map(([name]) => name);
  }

  override get displays(): ReadonlyMap<string, MetricDisplay> {
    return this.#inner.displays;
  }

  override get hasGroupRewards(): boolean {
    return this.#inner.hasGroupRewards;
  }

  override async settleGroup(contexts: readonly RewardContext<R>[], run?: ScoringRunner): Promise<readonly (Score | VfError)[]> {
    const outcomes = await this.#inner.settleGroup(contexts, run);
    return outcomes.map((outcome) => (outcome instanceof Error ? outcome : this.reweighed(outcome)));
  }

  /** The same score with the new weights. RewardError if a value is missing whose weight changes. */
  reweighed(score: Score): Score | RewardError {
    const before = this.#inner.weights;
    const changed = Object.entries(this.#changes).filter(([name, weight]) => weight !== before.get(name));
    const missing = changed.find(([name]) => score.metrics[name] === undefined);
    if (missing !== undefined) {
      return new RewardError(`"${missing[0]}" has no value for this rollout, so it cannot have the weight ${missing[1]}. Score the rollout again.`);
    }
    const added = (weights: ReadonlyMap<string, number>) =>
      [...weights].reduce((sum, [name, weight]) => sum + weight * (score.metrics[name] ?? 0), 0);
    // A rubric that overrides its sum keeps what the override adds to it.
    const own = score.reward - added(before);
    const isPlainSum = Math.abs(own) <= 1e-9 * Math.max(1, Math.abs(score.reward));
    return { ...score, reward: added(this.weights) + (isPlainSum ? 0 : own) };
  }
}
