/**
 * Named, weighted rewards. A reward function gets one explicit context; there is no injection by argument name. A reward that throws
 * or is not finite is an error of the rollout, never a zero.
 */
import type { Row } from './dataset.ts';
import type { SegmentKind, StopCondition } from './environment.ts';
import { ConfigError, RewardError, causeText } from './errors.ts';
import type { Message } from './message.ts';
import { Parser } from './parser.ts';

export interface TextSegment {
  readonly kind: Exclude<SegmentKind, 'prompt'>;
  readonly text: string;
}

/** All that a reward function may look at. */
export interface RewardContext<R extends Row = Row> {
  readonly row: R;
  /** What the policy was asked, as the episode gave it. */
  readonly prompt: readonly Message[];
  /** The response side in order; `kind: 'model'` is what the policy wrote. */
  readonly segments: readonly TextSegment[];
  /** The segments' text, joined. */
  readonly scoredText: string;
  /** Only what the policy wrote, joined. */
  readonly modelText: string;
  readonly stop: StopCondition;
  /** The episode's own bookkeeping. */
  readonly state: Readonly<Record<string, unknown>>;
  readonly parser: Parser;
  readonly signal: AbortSignal;
}

export type RewardFunction<R extends Row = Row> = (context: RewardContext<R>) => number | Promise<number>;
/** Scores the rollouts of one group together; one number per context, in order. */
export type GroupRewardFunction<R extends Row = Row> = (contexts: readonly RewardContext<R>[]) => readonly number[] | Promise<readonly number[]>;

interface Term<R extends Row> {
  readonly name: string;
  readonly weight: number;
  readonly each?: RewardFunction<R>;
  readonly group?: GroupRewardFunction<R>;
}

/** A named reward with its weight. @default weight 1 */
export function reward<R extends Row>(fn: RewardFunction<R>, options: { name?: string; weight?: number } = {}): Term<R> {
  return { name: options.name ?? fn.name, weight: options.weight ?? 1, each: fn };
}

/** Counted and shown, weight 0. */
export function metric<R extends Row>(fn: RewardFunction<R>, options: { name?: string } = {}): Term<R> {
  return { name: options.name ?? fn.name, weight: 0, each: fn };
}

/** A reward over a whole group of rollouts of one row. */
export function groupReward<R extends Row>(fn: GroupRewardFunction<R>, options: { name?: string; weight?: number } = {}): Term<R> {
  return { name: options.name ?? fn.name, weight: options.weight ?? 1, group: fn };
}

export interface Score {
  /** `sum(weight * value)` over the terms. */
  readonly reward: number;
  /** Every term's value by name, unweighted. */
  readonly metrics: Readonly<Record<string, number>>;
}

export class Rubric<R extends Row = Row> {
  readonly parser: Parser;
  readonly #terms: readonly Term<R>[];

  /**
   * Plain functions have weight 1 and their own name; wrap them in `reward`, `metric` or `groupReward` to say otherwise. Throws ConfigError
   * when a name is missing or taken, or a weight is not finite.
   */
  constructor(options: { funcs: readonly (RewardFunction<R> | Term<R>)[]; parser?: Parser }) {
    this.parser = options.parser ?? new Parser();
    this.#terms = options.funcs.map((f) => (typeof f === 'function' ? reward(f) : f));
    const names = this.names;
    for (const [i, { name, weight }] of this.#terms.entries()) {
      if (name === '')
        throw new ConfigError(`Expected every reward function to have a name, function ${i} has none: wrap it in reward(fn, { name })`);
      if (names.indexOf(name) !== i) throw new ConfigError(`Expected reward names to be unique, got "${name}" twice`);
      if (!Number.isFinite(weight)) throw new ConfigError(`Expected the weight of "${name}" to be a finite number, got ${String(weight)}`);
    }
  }

  /** A rubric with these functions added after its own. */
  extend(funcs: readonly (RewardFunction<R> | Term<R>)[]): Rubric<R> {
    return new Rubric({ funcs: [...this.#terms, ...funcs], parser: this.parser });
  }

  get names(): readonly string[] {
    return this.#terms.map((t) => t.name);
  }

  /** Of `names`, those that count towards the reward. */
  get rewardNames(): readonly string[] {
    return this.#terms.filter((t) => t.weight !== 0).map((t) => t.name);
  }

  /** True when some reward needs the whole group at once. */
  get hasGroupRewards(): boolean {
    return this.#terms.some((t) => t.group !== undefined);
  }

  /** Scores one rollout; group rewards see a group of one. */
  async score(context: RewardContext<R>): Promise<Score> {
    return (await this.scoreGroup([context]))[0]!;
  }

  /** Scores the rollouts of one group. Throws RewardError when a function throws, misses a rollout, or gives a number that is not finite. */
  async scoreGroup(contexts: readonly RewardContext<R>[]): Promise<readonly Score[]> {
    const totals = contexts.map(() => 0);
    const metrics: Record<string, number>[] = contexts.map(() => ({}));
    for (const term of this.#terms) {
      const values = await this.#values(term, contexts);
      if (values.length !== contexts.length) {
        throw new RewardError(`Expected group reward "${term.name}" to give ${contexts.length} numbers, one per rollout, got ${values.length}`);
      }
      for (const [i, value] of values.entries()) {
        if (!Number.isFinite(value)) throw new RewardError(`Expected reward "${term.name}" to be a finite number, got ${String(value)}`);
        metrics[i]![term.name] = value;
        totals[i]! += term.weight * value;
      }
    }
    return totals.map((total, i) => ({ reward: total, metrics: metrics[i]! }));
  }

  async #values(term: Term<R>, contexts: readonly RewardContext<R>[]): Promise<readonly number[]> {
    try {
      if (term.group) return await term.group(contexts);
      const values: number[] = [];
      // One after another: reward functions may share a judge, whose limiter decides what runs at once.
      for (const context of contexts) values.push(await term.each!(context));
      return values;
    } catch (cause) {
      throw new RewardError(`Reward "${term.name}" failed: ${causeText(cause)}`, { cause });
    }
  }
}
