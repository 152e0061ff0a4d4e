/**
 * Named, weighted rewards. A reward function receives one explicit context; arguments are not injected by name. A reward that throws or is not finite is
 * an error of the rollout, never a zero.
 */
import type { Row } from './dataset.ts';
import type { SegmentKind, StopCondition } from './environment.ts';
import { causeText, ConfigError, RewardError, VfError } from './errors.ts';
import type { Message } from './message.ts';
import type { Models } from './model.ts';
import { Parser } from './parser.ts';
import { groupValues } from './group-values.ts';
import { finite, metricError } from './reward-errors.ts';
import { TermPlace } from './term-place.ts';

/** A segment of a rollout's response, written by one author. */
export interface TextSegment {
  readonly kind: Exclude<SegmentKind, 'prompt'>;
  readonly text: string;
  /** The messages of the segment, unless it is one plain message of this text: tool calls and answers, images. */
  readonly messages?: readonly Message[];
  /** Thoughts that a chat API returned outside the text of a turn. When a rollout is scored, they are part of its text, between `<think>` and `</think>`. @default none */
  readonly reasoning?: string;
}

/** The parts of a rollout that a reward function receives. */
export interface RewardContext<R extends Row = Row> {
  readonly row: R;
  /** The episode's prompt. */
  readonly prompt: readonly Message[];
  /** Everything after the prompt, in order; the policy wrote the segments of kind `model`. */
  readonly segments: readonly TextSegment[];
  /** The text of all segments, joined without separators. */
  readonly scoredText: string;
  /** The text of the segments that the policy wrote, joined without separators. */
  readonly modelText: string;
  readonly stop: StopCondition;
  /** The episode's final state. */
  readonly state: Readonly<Record<string, unknown>>;
  readonly parser: Parser;
  /** The models of the environment's roles; calls are recorded with the rollout. */
  readonly models: Models;
  readonly signal: AbortSignal;
}

/** Returns a finite number. */
export type RewardFunction<R extends Row = Row> = (context: RewardContext<R>) => number | Promise<number>;
/** Returns a finite number, or null if the metric does not apply to the rollout, which then has no value and is left out of means. */
export type MetricFunction<R extends Row = Row> = (context: RewardContext<R>) => number | null | Promise<number | null>;
/** Scores the rollouts of one group together: returns one finite number per context, in order. */
export type GroupRewardFunction<R extends Row = Row> = (contexts: readonly RewardContext<R>[]) => readonly number[] | Promise<readonly number[]>;

/** The way summaries and progress show a metric. */
export interface MetricDisplay {
  /** Shown instead of the name: `exact match`. @default the name */
  readonly label?: string;
  /** The metric is a count. Otherwise, a metric whose values are all 0 or 1 is treated as a share and gets a share's interval. @default false */
  readonly isCount?: boolean;
  /** The progress line shows its mean. @default false */
  readonly isHeadline?: boolean;
  /** If set, the metric is shown only if some value is not 0, as `3 of 50 rollouts` followed by this text. @default none */
  readonly remark?: string;
}

/** A reward or a metric of a rubric. */
export interface Term<R extends Row> {
  readonly name: string;
  readonly weight: number;
  readonly display?: MetricDisplay;
  /** Null is for metrics only. */
  readonly each?: MetricFunction<R>;
  readonly group?: GroupRewardFunction<R>;
}

/**
 * A reward function with a name and a weight.
 * @param options `name`: the function's own by default. `weight`: 1 by default.
 * @example reward(({ row, modelText }) => Number(modelText.includes(row.answer ?? '')), { name: 'contains_answer', weight: 0.5 })
 */
export function reward<R extends Row>(fn: RewardFunction<R>, options: { name?: string; weight?: number } & MetricDisplay = {}): Term<R> {
  const { name = fn.name, weight = 1, ...display } = options;
  return { name, weight, display, each: fn };
}

/**
 * A metric: recorded and shown like a reward, with weight 0. One that throws or is not finite costs only its own value: the rollout finishes without it.
 * One that returns null does not apply to the rollout.
 *
 * @example metric(({ state }) => Number(state['searches']), { name: 'searches', label: 'searches per rollout', isCount: true })
 */
export function metric<R extends Row>(fn: MetricFunction<R>, options: { name?: string } & MetricDisplay = {}): Term<R> {
  const { name = fn.name, ...display } = options;
  return { name, weight: 0, display, each: fn };
}

/**
 * A reward that scores the rollouts of one row together.
 * @example groupReward((contexts) => contexts.map(({ modelText }, i) => (contexts.findIndex((c) => c.modelText === modelText) === i ? 1 : 0)), { name: 'distinct' })
 */
export function groupReward<R extends Row>(fn: GroupRewardFunction<R>, options: { name?: string; weight?: number } & MetricDisplay = {}): Term<R> {
  const { name = fn.name, weight = 1, ...display } = options;
  return { name, weight, display, group: fn };
}

/**
 * Runs one piece of scoring: the rewards of one member of a group, or the group rewards of several (`members`: their indices). It may wait for a slot,
 * set a deadline or retry. `awaited` describes the work, as in `reward "judge" was being computed`.
 */
export type ScoringRunner = <T>(work: () => Promise<T>, members: readonly number[], awaited?: () => string | null) => Promise<T>;

/** A rubric's result for an episode. */
export interface Score {
  /** `sum(weight * value)` over the terms. */
  readonly reward: number;
  /** Every term's value by name, unweighted; without the metrics that failed. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The reasons why metrics have no value, by name; absent if none failed. */
  readonly metricErrors?: Readonly<Record<string, string>>;
}

/**
 * The rewards and metrics of an environment.
 * @example new Rubric({ funcs: [reward(({ stop }) => Number(stop === 'completed'), { name: 'completed' }), metric(({ state }) => Number(state['turns']), { name: 'turns' })] })
 */
export class Rubric<R extends Row = Row> {
  readonly parser: Parser;
  readonly #terms: readonly Term<R>[];
  readonly #readsThoughts: boolean;

  /**
   * Plain functions have weight 1 and their own name; wrap them in `reward`, `metric` or `groupReward` to change that. Throws ConfigError if a name is
   * missing or taken, or a weight is not finite.
   */
  constructor(options: { funcs: readonly (RewardFunction<R> | Term<R>)[]; parser?: Parser; readsThoughts?: boolean }) {
    this.parser = options.parser ?? new Parser();
    this.#readsThoughts = options.readsThoughts ?? this.parser.readsThoughts;
    this.#terms = options.funcs.map((f) => (typeof f === 'function' ? reward(f) : f));
    const names = this.#terms.map(({ name }) => name);
    for (const [i, { name, weight }] of this.#terms.entries()) {
      if (name === '') throw new ConfigError(`Reward function ${i} has no name. Wrap it in reward(fn, { name }).`);
      if (names.indexOf(name) !== i) throw new ConfigError(`Two rewards are called "${name}". Rename one.`);
      if (!Number.isFinite(weight)) throw new ConfigError(`The weight of "${name}" must be a finite number, got ${String(weight)}`);
    }
  }

  /** A rubric with these functions added after its own. Overrides of a subclass are lost; a RubricGroup keeps them. */
  extend(funcs: readonly (RewardFunction<R> | Term<R>)[]): Rubric<R> {
    return new Rubric({ funcs: [...this.#terms, ...funcs], parser: this.parser, readsThoughts: this.readsThoughts });
  }

  /**
   * In chat format, the turns that rewards read begin with the thoughts that a chat API returned outside the text, in `<think>`, and with what the chat template wrote
   * (`<think>\n\n</think>` of Qwen3 without thinking). In continuation format they always do. @default that of the parser
   */
  get readsThoughts(): boolean {
    return this.#readsThoughts;
  }

  /** Whether the rewards of this row read thoughts: in a group of environments, its own environment decides. */
  readsThoughtsOf(_row: R): boolean {
    return this.readsThoughts;
  }

  /** Names of all rewards and metrics, in order. */
  get names(): readonly string[] {
    return this.#terms.map((t) => t.name);
  }

  /** Names of the terms whose weight is not 0. */
  get rewardNames(): readonly string[] {
    return this.#terms.filter((t) => t.weight !== 0).map((t) => t.name);
  }

  /** Weight of each term, by name and in order; metrics have 0. */
  get weights(): ReadonlyMap<string, number> {
    return new Map(this.#terms.map(({ name, weight }) => [name, weight]));
  }

  /** The way each term is shown, by name and in order. */
  get displays(): ReadonlyMap<string, MetricDisplay> {
    return new Map(this.#terms.map(({ name, display = {} }) => [name, display]));
  }

  /** True if there is a group reward. */
  get hasGroupRewards(): boolean {
    return this.#terms.some((t) => t.group !== undefined);
  }

  /** Scores one rollout; group rewards receive a group of one. Throws RewardError. */
  async score(context: RewardContext<R>): Promise<Score> {
    // An override called this through `super`: score by the terms, because `scoreGroup` would call the override again.
    const isInherited = this.#scoresItself && this.score !== Rubric.prototype.score;
    return (await (isInherited ? this.#settle([context]).then(scoresOf) : this.scoreGroup([context])))[0]!;
  }

  /** Scores the rollouts of one group. Throws the first RewardError if a function throws, omits a rollout, or returns a number that is not finite. */
  async scoreGroup(contexts: readonly RewardContext<R>[]): Promise<readonly Score[]> {
    const isInherited = this.#scoresItself && this.scoreGroup !== Rubric.prototype.scoreGroup;
    return scoresOf(await (isInherited ? this.#settle(contexts) : this.settleGroup(contexts)));
  }

  /** True if a subclass overrides `score` or `scoreGroup`. An override of `settleGroup` takes precedence over both. */
  get #scoresItself(): boolean {
    if (this.settleGroup !== Rubric.prototype.settleGroup) return false;
    return this.score !== Rubric.prototype.score || this.scoreGroup !== Rubric.prototype.scoreGroup;
  }

  /**
   * Scores the rollouts of one group concurrently and returns a score or an error for each: a failed member does not affect the others. Group rewards
   * receive the members whose own rewards succeeded; if a group reward fails, all of these fail. If a subclass overrides
   * `scoreGroup` or `score`, that method computes the scores.
   */
  async settleGroup(contexts: readonly RewardContext<R>[], run: ScoringRunner = direct): Promise<readonly (Score | VfError)[]> {
    if (!this.#scoresItself) return this.#settle(contexts, run);
    const whole = contexts.map((_, i) => i);
    if (this.scoreGroup !== Rubric.prototype.scoreGroup)
      return run(() => this.scoreGroup(contexts), whole).catch((error) => whole.map(() => asVfError(error)));
    return Promise.all(contexts.map((context, i) => run(() => this.score(context), [i]).catch(asVfError)));
  }

  async #settle(contexts: readonly RewardContext<R>[], run: ScoringRunner = direct): Promise<readonly (Score | VfError)[]> {
    const outcomes = await Promise.all(
      contexts.map((context, i) => {
        const place = new TermPlace('reward');
        return run(
          () => this.#own(context, place),
          [i],
          () => place.text,
        ).catch(asVfError);
      }),
    );
    const members = contexts.flatMap((_, i) => (outcomes[i] instanceof VfError ? [] : [i]));
    const groupTerms = this.#terms.filter(({ group }) => group !== undefined);
    if (members.length > 0 && groupTerms.length > 0) {
      const shared = contexts.filter((_, i) => members.includes(i));
      const place = new TermPlace('group reward');
      const values = await run(
        () => groupValues(groupTerms, shared, place),
        members,
        () => place.text,
      ).catch(asVfError);
      for (const [k, i] of members.entries()) {
        if (values instanceof VfError) outcomes[i] = values;
        else for (const [name, all] of values) (outcomes[i] as Values).set(name, all instanceof RewardError ? all : all[k]!);
      }
    }
    return outcomes.map((outcome) => (outcome instanceof VfError ? outcome : this.#total(outcome)));
  }

  /** Computes the terms of one rollout one after another, because a later one may use what an earlier one cached. */
  async #own(context: RewardContext<R>, place: TermPlace): Promise<Values> {
    const values: Values = new Map();
    for (const { name, weight, each } of this.#terms) {
      if (each === undefined) continue;
      place.name = name;
      try {
        const value = await each(context);
        if (value === null && weight === 0) continue;
        values.set(name, finite({ name, weight }, value as number));
      } catch (error) {
        values.set(name, metricError({ name, weight }, error));
      }
    }
    return values;
  }

  #total(values: Values): Score {
    const metrics: Record<string, number> = {};
    const metricErrors: Record<string, string> = {};
    let total = 0;
    for (const { name, weight } of this.#terms) {
      const value = values.get(name);
      if (value === undefined) continue;
      if (value instanceof RewardError) {
        metricErrors[name] = value.message;
        continue;
      }
      metrics[name] = value;
      total += weight * value;
    }
    return { reward: total, metrics, ...(Object.keys(metricErrors).length === 0 ? {} : { metricErrors }) };
  }
}

const direct: ScoringRunner = (work) => work();

/** Throws the first error. */
function scoresOf(outcomes: readonly (Score | VfError)[]): readonly Score[] {
  return outcomes.map((outcome) => {
    if (outcome instanceof VfError) throw outcome;
    return outcome;
  });
}

/** Values by name; the value of a metric that failed is its error. */
type Values = Map<string, number | RewardError>;

/** The error of a runner: a failed reward or a deadline. */
function asVfError(error: unknown): VfError {
  return error instanceof VfError ? error : new RewardError(causeText(error), { cause: error });
}
