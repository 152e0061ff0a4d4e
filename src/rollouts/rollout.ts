/** The record of one episode: its text and tokens by author, how it ended and its reward. */
import type { PolicyRef, Usage } from '../clients/policy-client.ts';
import type { Fork } from '../agents/fork.ts';
import type { Row } from '../core/dataset.ts';
import type { StopCondition, TurnFormat } from '../core/environment.ts';
import { AgentError, type AgentFailure } from '../core/agent-error.ts';
import {
  describeError,
  EnvironmentError,
  ModelError,
  type ModelFailure,
  PolicyError,
  RetrievalError,
  RewardError,
  stackTrace,
  thrownText,
  ToolError,
  UnplayedError,
  VfError,
} from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import type { AskedRecord } from '../core/model.ts';
import type { Score, TextSegment } from '../core/rubric.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { withoutColours } from '../core/without-colours.ts';
import type { RequestFacts } from './agent-requests.ts';
import type { EpisodeEvent } from './episode-event.ts';

export type RolloutPhase = 'lease' | 'setup' | 'prompt' | 'generation' | 'environment' | 'scoring';

/** `prompt`: it left the policy no room for a first token. */
export type FailureSource = 'policy' | 'environment' | 'model' | 'reward' | 'prompt';

/** The reason why a rollout has no reward. Plain data, safe to write to a file once secrets are redacted. */
export interface RolloutError {
  /** The error's class: `PolicyError`, `RetrievalError`, ... */
  readonly type: string;
  readonly message: string;
  /** The message with those of its causes, outermost first. */
  readonly chain: string;
  readonly phase: RolloutPhase;
  /** The origin of the failure. A trainer waits for outages of some sources and plays others again. */
  readonly source: FailureSource;
  /** The way in which a model other than the policy, or an agent's program, failed; absent for other failures. */
  readonly reason?: ModelFailure | AgentFailure;
  /** True when another attempt may succeed. */
  readonly retryable: boolean;
  /** True if the failed request was already repeated as often as allowed. */
  readonly isRetriedOut?: true;
  /** Stacks of the thrown value and its causes, for a developer's terminal only: they are never written to a file. */
  readonly stack?: string;
  /** True if no later rollout can succeed either: a wrong key, an unknown model. */
  readonly endsRun?: true;
  /** True if the environment's code returned what it must not: every further attempt would too. */
  readonly isOfCode?: true;
}

/** One call of the policy. */
export interface Generation {
  readonly finish: 'stop' | 'length';
  readonly stopReason: string | number | null;
  readonly usage: Usage;
  /** The request's token limit; null when it was left to the server. */
  readonly maxNewTokens: number | null;
  /** Tokens kept in the buffer; null in chat mode. */
  readonly keptTokens: number | null;
  /** Characters of the last kept token beyond the cut: part of the model's next context, not of the scored text. */
  readonly overhang: string;
  /** The beginning of the turn's text that the model's chat template wrote, such as `<think>\n`: scored, but not sampled. @default none */
  readonly opening?: string;
  /** What the environment's `step` said it was worth by itself. @default none */
  readonly reward?: number;
  /** As in `TextSample`. @default false */
  readonly stopIsGuess?: boolean;
  /** As in `TextSample`. @default false */
  readonly stopWasIgnored?: boolean;
}

export interface RolloutTiming {
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  readonly setupMs: number;
  readonly generationMs: number;
  readonly environmentMs: number;
  readonly scoringMs: number;
}

/** Tokens over all calls of the policy. Input tokens count every prompt that was sent; cached is null as soon as one call did not report it. */
export interface RolloutUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens: number | null;
}

/**
 * The facts that every view of a rollout has, in memory and on file: its identity, its end, its reward and its cost. `Rollout` is the whole record; the summary,
 * training and the files read views of it.
 */
export interface RolloutFacts {
  /** `<example id>/<index>`: unique within a run, or within a step of training. */
  readonly rolloutId: string;
  /** Rollouts of one row share it. */
  readonly groupId: string;
  /** 0 to rollouts per example - 1. */
  readonly index: number;
  /** The row's task; null if rows have none. */
  readonly task: string | null;
  /** The role that wrote its turns; absent if rows have none. */
  readonly role?: string;
  /** Null when the rollout failed: a failure is never a reward of 0. */
  readonly reward: number | null;
  /** By name; empty for a rollout that failed. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Null exactly if there is a reward. */
  readonly error: Pick<RolloutError, 'type' | 'message' | 'reason'> | null;
  readonly stop: string;
  /** True if some generation was cut by its length limit, or the context had no room left. */
  readonly isTruncated: boolean;
  /** True if the context or the response was truncated as upstream does; such a rollout is never trained on or exported. */
  readonly isCut: boolean;
  /** Number of generations; for a program, those that it recorded. */
  readonly turns: number;
  readonly policy: PolicyRef;
  readonly usage: RolloutUsage;
}

/**
 * A sequence of a rollout: a first prompt, and what the policy and the environment wrote after it. An episode is one branch. An agent that rewrites its history, asks
 * sub-agents or asks for several answers has more of them.
 */
export interface Branch {
  /** The index of the branch that holds the turns with which its prompt begins, which is a smaller one; null if it shares no turn of the policy with another. */
  readonly parent: number | null;
  /** Where and why its messages left those of another branch; null for the first. */
  readonly fork: Fork | null;
  /** All messages before its first own turn. */
  readonly prompt: readonly Message[];
  /** Tools that the policy was offered natively. */
  readonly tools: readonly ToolSpec[];
  /** Its own turns, and what was said between them. */
  readonly segments: readonly TextSegment[];
  readonly generations: readonly Generation[];
  /** Its prompt, in which turns of other branches have mask 0, and its own turns; null in chat mode. A sampled token has mask 1 in exactly one branch of a rollout. */
  readonly tokens: TokenBuffer | null;
  /** The role that wrote it, if an environment says so. @default the rollout's */
  readonly role?: string;
  /** Its own reward, if an environment gives one. @default the rollout's */
  readonly reward?: number;
  /** The policy wrote its last turn of the rollout in it, although others come after it. @default it did in the last branch */
  readonly endsLast?: true;
}

/** The record of one episode. */
export interface Rollout<R extends Row = Row> extends RolloutFacts, RequestFacts {
  readonly row: R;
  /** The episode's prompt; the row's own if the episode never started. */
  readonly prompt: readonly Message[];
  /** Tools that the policy was offered natively. */
  readonly tools: readonly ToolSpec[];
  readonly turnFormat: TurnFormat;
  readonly segments: readonly TextSegment[];
  /** The sequences that it consists of; none for an agent that failed before the policy answered. `prompt` and `tools` are those of the first, `segments` and `generations` those of all, in order. */
  readonly branches: readonly Branch[];
  readonly stop: StopCondition;
  readonly error: RolloutError | null;
  /** The error of the episode's clean-up, which failed or took too long; the rollout counts all the same. */
  readonly cleanUpError: RolloutError | null;
  /** The reasons why metrics have no value, by name; absent if none failed. */
  readonly metricErrors?: Readonly<Record<string, string>>;
  /** Calls of models by role while it was played and scored, in the order of their replies. */
  readonly asked: readonly AskedRecord[];
  /** The events, in order; absent unless the environment `traces`. */
  readonly events?: readonly EpisodeEvent[];
  readonly generations: readonly Generation[];
  readonly state: Readonly<Record<string, unknown>>;
  /** Number of observations that were cut, of which only the head was kept. */
  readonly cutObservations: number;
  /** The state of the rollout when its episode had ended, which a failure of its rewards hides; absent if it was not to be scored. */
  readonly beforeScoring?: BeforeScoring;
  /** Number of rollouts of its group that were scored together with it, itself included; 0 if it was not scored. */
  readonly scoredWith: number;
  /** Number of times that the episode was begun, from 1 up. */
  readonly attempts: number;
  /** Tokens of the attempts before the last, which `usage` leaves out; absent if there are none. */
  readonly repeatedUsage?: RolloutUsage;
  readonly timing: RolloutTiming;
}

interface BeforeScoring {
  readonly stop: StopCondition;
  /** Calls in `asked` when the episode had ended. */
  readonly asked: number;
  /** Calls in `asked` when the environment's `finish` hook had run, whose fields the state then holds; null if it failed. */
  readonly askedFinished: number | null;
}

/** The result of playing: the record without its place in the run and without its score. */
export type Played = Omit<
  Rollout,
  'rolloutId' | 'groupId' | 'index' | 'task' | 'role' | 'row' | 'reward' | 'metrics' | 'scoredWith' | 'beforeScoring' | 'attempts' | 'repeatedUsage'
>;

/** The rollouts of one row, played and scored. */
export interface ScoredGroup<R extends Row = Row> {
  readonly groupId: string;
  readonly row: R;
  /** By index; failed ones have an error and no reward. Rollouts that a cancelled run did not reach are absent. */
  readonly rollouts: readonly Rollout<R>[];
}

/** A thrown value as data. A foreign error is attributed to the code that ran in its phase: the policy's client, a reward, the environment. */
export function rolloutError(error: unknown, phase: RolloutPhase): RolloutError {
  const source = sourceOf(error, phase);
  const isJudges = error instanceof RewardError && error.cause instanceof ModelError;
  const model = isJudges ? error.cause : error;
  const stack = stackTrace(error);
  return {
    type: isJudges ? FOREIGN.model : error instanceof VfError || (source === 'policy' && isBug(error)) ? error.name : FOREIGN[source],
    message: withoutColours(thrownText(error)),
    chain: withoutColours(describeError(error)),
    phase,
    source,
    ...(model instanceof ModelError || model instanceof AgentError ? { reason: model.reason } : {}),
    retryable: error instanceof VfError && error.retryable,
    ...(stack === null ? {} : { stack: withoutColours(stack) }),
    ...(error instanceof VfError && error.isRetriedOut ? { isRetriedOut: true } : {}),
    ...(error instanceof VfError && error.endsRun ? { endsRun: true } : {}),
    ...(error instanceof VfError && error.isOfCode ? { isOfCode: true } : {}),
  };
}

/** An error of a program, not of a server: "fetch failed" is a TypeError too, but has a cause. */
function isBug(error: unknown): error is Error {
  return error instanceof Error && BUGS.includes(error.name) && error.cause === undefined;
}

/** Classes of errors that a fault in a client's code throws. A rollout that failed in this way has the class as its `type`. */
export const BUGS: readonly string[] = ['TypeError', 'ReferenceError', 'RangeError'];

/** The `type` of the error of a rollout in which the policy had no room for a first token. Another attempt ends in the same way. */
export const UNPLAYED = 'UnplayedError';

const FOREIGN: Readonly<Record<FailureSource, string>> = {
  policy: 'PolicyError',
  environment: 'EnvironmentError',
  model: 'ModelError',
  reward: 'RewardError',
  prompt: UNPLAYED,
};

function sourceOf(error: unknown, phase: RolloutPhase): FailureSource {
  const isPolicys = phase === 'lease' || phase === 'prompt' || phase === 'generation';
  if (error instanceof UnplayedError) return 'prompt';
  // In other phases only a client that the environment created can throw it.
  if (error instanceof PolicyError && isPolicys) return 'policy';
  if (error instanceof ModelError || (error instanceof RewardError && error.cause instanceof ModelError)) return 'model';
  if (error instanceof RetrievalError || error instanceof ToolError || error instanceof AgentError || error instanceof EnvironmentError)
    return 'environment';
  if (phase === 'scoring') return 'reward';
  return isPolicys ? 'policy' : 'environment';
}

/** The rollout with its score, or with the error that scoring met. */
export function withScore<R extends Row>(rollout: Rollout<R>, score: Score | RolloutError, scoringMs: number): Rollout<R> {
  const timing = { ...rollout.timing, scoringMs };
  if ('type' in score) return { ...rollout, timing, error: score, stop: 'has_error', reward: null, metrics: {} };
  const { reward, metrics, metricErrors } = score;
  return { ...rollout, timing, reward, metrics, ...(metricErrors === undefined ? {} : { metricErrors }) };
}
