/** Summary of an evaluation: the figures that `vf-eval` prints, and the JSON object of `--json`. */
import { snakeKeys } from './key-case.ts';
import type { RoleStats } from './role-stats.ts';
import type { RunCost } from './run-cost.ts';

/** A mean with its 95 % confidence interval. */
export interface Estimate {
  readonly value: number;
  /** Ends of the interval; equal to `value` if nothing varies, null if there is only one example. */
  readonly low: number | null;
  readonly high: number | null;
  /** Number of rollouts; for pass@k and pass^k, of examples. */
  readonly n: number;
}

interface TranscriptBranch {
  readonly segments: number;
  /** Messages of its prompt that no earlier branch has; absent for the first, and where the files lack them. */
  readonly prompt?: SampleTranscript['prompt'];
  /** Absent if the agent named none. */
  readonly role?: string;
  /** The branch that it left; null for the first, and for one that shares no turn with another. */
  readonly parent: number | null;
  readonly fork: { readonly kind: string; readonly at: number; readonly difference: string } | null;
}

/** One rollout as text, for reading. */
export interface SampleTranscript {
  readonly exampleId: string | number;
  readonly rolloutIndex: number;
  /** Content of the prompt's messages, in order. */
  readonly prompt: readonly { readonly role: string; readonly content: string }[];
  /** Segments after the prompt, in order; raw text that may hold control characters. */
  readonly segments: readonly { readonly kind: string; readonly text: string }[];
  /** The branches of an agent's rollout, in order, with the number of segments of each; absent if it has one. */
  readonly branches?: readonly TranscriptBranch[];
  readonly answer: unknown;
  /** Replies of the models by role (generator, judge, …), in the order of the calls; absent if the environment calls none. */
  readonly asked?: readonly { readonly role: string; readonly text: string }[];
  readonly reward: number | null;
  readonly stopCondition: string | null;
}

export interface ForkFigures {
  /** Recorded rollouts with a fork. */
  readonly rollouts: number;
  /** Their share of the recorded rollouts. */
  readonly share: number;
  /** By kind, most frequent first: the number of forks, and what differed at the first of them. */
  readonly kinds: Readonly<Record<string, { readonly count: number; readonly example: string }>>;
}

interface RequestFigures {
  /** Recorded rollouts with such a request. */
  readonly rollouts: number;
  /** Number of such requests. */
  readonly count: number;
}

/** The figures of a run, as `vf-eval --json` prints them, with names in camelCase. */
export interface Summary {
  /** The run's name for people; absent if it has none. */
  readonly name?: string;
  readonly envId: string;
  readonly model: string;
  /** `none`: a program, which calls its own models. */
  readonly policyKind: 'tokens' | 'chat' | 'none';
  readonly directory: string;
  /** True if every planned rollout is recorded. */
  readonly complete: boolean;
  /** Numbers of rollouts; `recorded = finished + errored`. */
  readonly rollouts: { readonly planned: number; readonly recorded: number; readonly finished: number; readonly errored: number };
  /** Distinct rows with a finished rollout. */
  readonly examples: number;
  readonly rolloutsPerExample: number;
  /** Over finished rollouts, like all estimates below; null if none finished. */
  readonly reward: Estimate | null;
  /** Generations per rollout. */
  readonly turns: Estimate | null;
  /** Every metric of the rubric by name. */
  readonly metrics: Readonly<Record<string, Estimate>>;
  /** The figures by task; absent if rows have no tasks. `finished` counts rollouts. */
  readonly tasks?: Readonly<
    Record<string, { readonly finished: number; readonly reward: Estimate | null; readonly metrics: Readonly<Record<string, Estimate>> }>
  >;
  /** Rollouts by stop condition, most frequent first; failed ones count under `has_error` or their own condition. */
  readonly stopConditions: Readonly<Record<string, number>>;
  /** Share of finished rollouts that a length limit cut short. */
  readonly truncated: Estimate | null;
  /** Failed rollouts by error class, most frequent first. */
  readonly errors: Readonly<Record<string, number>>;
  /** The ways in which models other than the policy failed, by error class; absent without such failures. */
  readonly errorReasons?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** One message per class of `errors`. */
  readonly errorExamples: Readonly<Record<string, string>>;
  /** Tokens over all recorded rollouts. `input` counts a prompt again on every turn; `cached` is the part found in the server's cache, null if not reported. */
  readonly tokens: {
    readonly input: number;
    readonly output: number;
    readonly cached: number | null;
    readonly inputPerRollout: number | null;
    readonly outputPerRollout: number | null;
  };
  /** Turns for which the server does not say whether a stop string ended them. */
  readonly guessedStops: number;
  /** Rollouts in which a prompt did not extend the previous one. */
  readonly prefixBreaks: number;
  /** Where conversations of agents left what had been said, so that one rollout became several sequences; absent if none did. */
  readonly forks?: ForkFigures;
  /** Requests of agents that were the same as an earlier one and got its answer; absent without any. */
  readonly repeats?: RequestFigures;
  /** Requests of agents that could not be honoured, with what the first of them was told; absent without any. */
  readonly refused?: RequestFigures & { readonly first: string };
  /** Costs and times of the models other than the policy, by role; absent if none was called. */
  readonly roles?: Readonly<Record<string, RoleStats>>;
  /** In US dollars; absent if every model runs in this process. */
  readonly cost?: RunCost;
  /** Wall-clock seconds over all sessions of the run, and rollouts recorded per second. */
  readonly wallSeconds: number;
  readonly rolloutsPerSecond: number | null;
  /** Seconds of them during which a request waited for a rate limit; absent if none did. */
  readonly waitedSeconds?: number;
  /** Unbiased pass@k and pass^k for k = 1, 2, 4, ... up to the rollouts per example, by k; empty for one rollout per example. */
  readonly passAtK: Readonly<Record<string, Estimate>>;
  readonly passAllK: Readonly<Record<string, Estimate>>;
  /** Lowest reward that counts as a pass. */
  readonly passThreshold: number;
  /** Null if nothing was recorded. */
  readonly sample: SampleTranscript | null;
  /** The environment's notices. */
  readonly notices: readonly string[];
}

/** Keys of these objects are names from elsewhere, or contents. */
const NAMED = ['metrics', 'tasks', 'kinds', 'stopConditions', 'errors', 'errorReasons', 'errorExamples', 'passAtK', 'passAllK', 'answer'];

/** The summary as JSON: the same fields in snake_case. The keys of `pass_at_k` and `pass_all_k` are values of k. */
export function summaryToWire(summary: Summary): Record<string, unknown> {
  return snakeKeys(summary, NAMED) as Record<string, unknown>;
}
