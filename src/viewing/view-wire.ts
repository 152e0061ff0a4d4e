/**
 * The data that the page of `vf-view` reads, over HTTP or from an exported file: only types, which the page and the server share. Keys are in snake_case. Lines of
 * results and their parts have the names from docs/results.md and docs/training-run.md. Unknown numbers are null.
 */
import type { RolloutCredit } from './credit-wire.ts';
import type { Asked, Message, Part, RolloutBranch } from './message-wire.ts';

import type { Estimate, RunLine, RunList } from './run-list-wire.ts';

export type { Asked, Content, Message, Part, RolloutBranch } from './message-wire.ts';
export type { Estimate, RunKind, RunLine, RunList } from './run-list-wire.ts';

/** `GET api/run?run=ID`. */
export type RunDetail = EvaluationDetail | TrainingDetail;

interface RunFacts {
  readonly run: RunLine;
  /** Settings to show, in order: name and value. */
  readonly facts: readonly { readonly name: string; readonly value: string }[];
  /** Files with rollouts. An evaluation has `results`; a training run `evaluation/10`, `step/12`, `step/12/propose` and so on. */
  readonly sets: readonly RolloutSet[];
}

export interface RolloutSet {
  readonly id: string;
  readonly title: string;
  readonly kind: 'results' | 'evaluation' | 'step';
  readonly step: number | null;
  /** An evaluation from before the environment or the settings of the evaluation changed: its rewards have another scale than those of the newest. */
  readonly older: boolean;
}

export interface EvaluationDetail extends RunFacts {
  readonly kind: 'evaluation';
  /** The object of `vf-eval --json` without its sample; null if nothing is recorded. docs/results.md, "The summary". */
  readonly summary: Readonly<Record<string, unknown>> | null;
}

export interface TrainingDetail extends RunFacts {
  readonly kind: 'training';
  /** The rows of an evaluation that can be followed over time, first the ones whose reward changed most. At most 500. */
  readonly held_out: readonly HeldOutLine[];
  readonly events: readonly { readonly kind: string; readonly step: number; readonly time: string; readonly message: string }[];
}

export interface HeldOutLine {
  readonly group: string;
  /** The question, shortened to 200 characters. */
  readonly question: string;
  /** Mean reward by evaluation; null if all of its rollouts failed. */
  readonly rewards: readonly { readonly step: number; readonly reward: number | null }[];
}

/** `GET api/rollouts?run=ID&set=SET&...`: a window of the table. */
export interface RolloutQuery {
  readonly run: string;
  readonly set: string;
  /** `order` (of the file), `reward`, `turns`, `tokens`, `id`, or `metric:NAME`. @default 'order' */
  readonly sort?: string;
  /** @default false */
  readonly descending?: boolean;
  readonly stop?: string;
  readonly task?: string;
  readonly group?: string;
  readonly min_reward?: number;
  readonly max_reward?: number;
  /** Only failed rollouts, or only finished ones. */
  readonly failed?: boolean;
  /** Only rollouts whose prompt, response or answer contains this text, in any case. */
  readonly text?: string;
  /** @default 0 */
  readonly from?: number;
  /** At most 500. @default 100 */
  readonly count?: number;
}

export interface RolloutPage {
  /** Rollouts of the set, and those that the query finds. */
  readonly total: number;
  readonly matched: number;
  readonly rows: readonly RolloutLine[];
  /** The possible columns and filters; `searches` is among the metrics if the environment counts them. */
  readonly metrics: readonly string[];
  readonly stops: readonly string[];
  readonly tasks: readonly string[];
  /** Rollouts by reward, in 20 equal bins between `low` and `high`, of what the query finds; null if none has a reward. */
  readonly histogram: { readonly low: number; readonly high: number; readonly counts: readonly number[] } | null;
  /** The part of the file that could not be read, in one line; null if everything could. */
  readonly problem: string | null;
}

export interface RolloutLine {
  readonly rollout_id: string;
  readonly group: string;
  readonly index: number;
  /** Null for a rollout that failed. */
  readonly reward: number | null;
  readonly stop: string;
  readonly turns: number;
  /** Tokens that the policy wrote. */
  readonly tokens: number | null;
  /** Class of the error. */
  readonly error: string | null;
  readonly task: string | null;
  readonly metrics: Readonly<Record<string, number>>;
  /** The question, shortened to 200 characters. */
  readonly question: string;
}

export type TranscriptLine = RolloutLine & { readonly parts: readonly Part[] };

/** `GET api/rollout?run=ID&set=SET&group=G&index=I`. */
export interface RolloutDetail extends RolloutCredit {
  readonly line: RolloutLine;
  readonly prompt: readonly Message[];
  /** Everything after the prompt, in order, with its writer: `model`, `observation`, `corrective`, `prefill`, `given` (by an agent in the role of the model) or, for a chat, the role. */
  readonly parts: readonly Part[];
  /** The row's reference, as the file has it; absent columns are null. */
  readonly answer: unknown;
  readonly info: unknown;
  readonly error: { readonly name: string; readonly message: string; readonly phase: string | null } | null;
  /** The reasons why metrics are null. */
  readonly metric_errors: Readonly<Record<string, string>>;
  /** Its calls to models other than the policy. */
  readonly asked: readonly Asked[];
  /** Further figures to show: name and value (seconds, attempts, policy version, weights and so on). */
  readonly facts: readonly { readonly name: string; readonly value: string }[];
  /** Rollouts of the same row, this one among them. */
  readonly siblings: readonly RolloutLine[];
  /** True if `api/tokens` has its tokens. */
  readonly has_tokens: boolean;
  /** The sequences that it consists of, if there are several: `parts` has those of all. Empty for one. */
  readonly branches: readonly RolloutBranch[];
}

/** `GET api/tokens?run=ID&set=SET&group=G&index=I&branch=B`, of the first branch by default. The arrays are parallel. [T] */
export interface RolloutTokens {
  readonly ids: readonly number[];
  /** The text that each token adds; null if the model's tokenizer is not available. */
  readonly texts: readonly string[] | null;
  /** The reason why there are no texts, and the remedy; null if there are. */
  readonly problem: string | null;
  /** 1 on the tokens that the policy sampled. */
  readonly mask: readonly (0 | 1)[];
  /** Natural logarithms; null if the mask is 0 or the sampler gave none. */
  readonly log_probs: readonly (number | null)[];
  readonly prompt_length: number;
}

/** `GET api/metrics?run=ID&after=N`: the contents of `metrics.jsonl` after its first N lines. */
export interface MetricLines {
  readonly lines: readonly {
    readonly kind: 'step' | 'evaluation' | 'validation';
    readonly step: number;
    readonly time: string;
    readonly values: Readonly<Record<string, number | null>>;
  }[];
  /** The `after` of the next request, which may be any number. Smaller than the given one if the file was begun again; the page then starts from nothing. */
  readonly next: number;
  /** Evaluations that are left out of all lines, because the environment or the settings of the evaluation have changed since: their rewards have another scale. */
  readonly older: number;
  readonly state: RunLine['state'];
  /** The configuration of the run; empty if it cannot be read. Only with `after=0`. */
  readonly settings: Readonly<Record<string, unknown>> | null;
  /** The meaning of each name, in one sentence; names without one are left out. Only with `after=0`. */
  readonly meanings: Readonly<Record<string, string>> | null;
}

/** `GET api/step?run=ID&step=N`: the groups of a training step, of all of its phases. */
export interface StepDetail {
  readonly step: number;
  /** Steps with rollouts on file, ascending. */
  readonly steps: readonly number[];
  readonly groups: readonly StepGroup[];
  /** True if the step's rollouts are complete. */
  readonly complete: boolean;
  /** The reason why advantages are null; null if they are given. */
  readonly advantages_problem: string | null;
}

export interface StepGroup {
  readonly set: string;
  readonly group: string;
  readonly question: string;
  readonly rollouts: readonly (RolloutLine & RolloutCredit)[];
}

/** `GET api/held-out?run=ID&group=G`: one held-out row in every evaluation. */
export interface HeldOutDetail {
  readonly group: string;
  readonly question: string;
  readonly answer: unknown;
  readonly evaluations: readonly { readonly step: number; readonly set: string; readonly rollouts: readonly TranscriptLine[] }[];
}

/** `GET api/compare?set=RUN:SET&set=RUN:SET&...`: two to eight sets on the same rows. */
export interface ComparisonQuery {
  readonly sets: readonly { readonly run: string; readonly set: string }[];
  /** `difference` (largest spread first) or `order`. @default 'difference' */
  readonly sort?: 'difference' | 'order';
  readonly from?: number;
  readonly count?: number;
}

export interface Comparison {
  readonly sets: readonly {
    readonly run: string;
    readonly set: string;
    readonly title: string;
    /** The run's name, or the settings that differ; empty if neither tells it from the others. */
    readonly label: string;
    readonly reward: Estimate | null;
  }[];
  /** Number of rows that all sets have, of rows that only some have, and of ids that stand for different rows. */
  readonly shared: number;
  readonly partial: number;
  readonly differing: number;
  /** Differences from the first set on shared rows: mean difference with its interval, and rows won, tied and lost. One per further set. */
  readonly differences: readonly {
    readonly mean: Estimate | null;
    readonly won: number;
    readonly tied: number;
    readonly lost: number;
    /** Why rewards of the set and of the first have no common scale, so that nothing is compared; null if they have one. */
    readonly notComparable: string | null;
  }[];
  readonly rows: readonly {
    readonly group: string;
    readonly question: string;
    /** Mean reward by set; null if it has no finished rollout of the row. */
    readonly rewards: readonly (number | null)[];
    readonly rollouts: readonly (readonly RolloutLine[])[];
  }[];
}

/** A request that could not be served, with status 400 to 500: the event, then the remedy, in one line. */
export interface ViewProblem {
  readonly problem: string;
}

/** The page's source of data: a server, or the file that contains the page. A refusal is thrown as an Error whose message is the problem. */
export interface ViewSource {
  /** True if new results can come: an exported file is fixed. */
  readonly live: boolean;
  runs(): Promise<RunList>;
  run(run: string): Promise<RunDetail>;
  rollouts(query: RolloutQuery): Promise<RolloutPage>;
  rollout(place: RolloutPlace): Promise<RolloutDetail>;
  tokens(place: TokensPlace): Promise<RolloutTokens>;
  metrics(run: string, after: number): Promise<MetricLines>;
  step(run: string, step: number): Promise<StepDetail>;
  heldOut(run: string, group: string): Promise<HeldOutDetail>;
  compare(query: ComparisonQuery): Promise<Comparison>;
  /** A URL that an `img` element can show: of this origin, or a data URL. */
  image(run: string, sha256: string): string;
}

export interface RolloutPlace extends Readonly<Record<'run' | 'set' | 'group', string>> {
  readonly index: number;
}

export interface TokensPlace extends RolloutPlace {
  /** Of a rollout that has several. @default 0 */
  readonly branch?: number;
}
