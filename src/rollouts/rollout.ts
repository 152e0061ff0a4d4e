/** The record of one episode: what was said, by whom, in which tokens, how it ended and what it is worth. */
import type { PolicyRef, Usage } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { StopCondition, TurnFormat } from '../core/environment.ts';
import {
  describeError,
  EnvironmentError,
  ModelError,
  PolicyError,
  RetrievalError,
  stackTrace,
  thrownText,
  ToolError,
  VfError,
} from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import type { AskedRecord } from '../core/model.ts';
import type { Score, TextSegment } from '../core/rubric.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { ToolSpec } from '../core/tool-calls.ts';

export type RolloutPhase = 'lease' | 'setup' | 'prompt' | 'generation' | 'environment' | 'scoring';

export type FailureSource = 'policy' | 'environment' | 'model' | 'reward';

/** Why a rollout has no reward. Plain data, safe to write to a file once secrets are redacted. */
export interface RolloutError {
  /** The error's class: `PolicyError`, `RetrievalError`, ... */
  readonly type: string;
  readonly message: string;
  /** The message with those of its causes, outermost first. */
  readonly chain: string;
  readonly phase: RolloutPhase;
  /** Whose failure it is: what a trainer waits for, or plays again, depends on it. */
  readonly source: FailureSource;
  /** True when another attempt may succeed. */
  readonly retryable: boolean;
  /** The request that failed was repeated already, as often as it may be. */
  readonly isRetriedOut?: true;
  /** Stacks of what was thrown and of its causes, for the terminal of a developer: no file holds them. */
  readonly stack?: string;
  /** No later rollout can succeed either: a wrong key, a model that is not there. */
  readonly endsRun?: true;
}

/** One call of the policy. */
export interface Generation {
  readonly finish: 'stop' | 'length';
  readonly stopReason: string | number | null;
  readonly usage: Usage;
  /** Tokens asked for at most; null when it was left to the server. */
  readonly maxNewTokens: number | null;
  /** Tokens kept in the buffer; null in chat mode. */
  readonly keptTokens: number | null;
  /** Characters of the last kept token beyond the cut; the model's next context holds them, the scored text does not. */
  readonly overhang: string;
}

export interface RolloutTiming {
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  readonly setupMs: number;
  readonly generationMs: number;
  readonly environmentMs: number;
  readonly scoringMs: number;
}

/** What playing gives, before it is scored. */
export interface Played {
  /** What the policy was asked; the row's own prompt when the episode never started. */
  readonly prompt: readonly Message[];
  /** Tools that it was offered natively. */
  readonly tools: readonly ToolSpec[];
  readonly turnFormat: TurnFormat;
  readonly segments: readonly TextSegment[];
  /** The tokens of the whole episode; null in chat mode. */
  readonly tokens: TokenBuffer | null;
  readonly stop: StopCondition;
  readonly error: RolloutError | null;
  /** The episode's clean-up failed or took too long; the rollout counts all the same. */
  readonly cleanUpError: RolloutError | null;
  /** What models by role were asked while it was played and scored, in the order of their replies. */
  readonly asked: readonly AskedRecord[];
  readonly generations: readonly Generation[];
  readonly policy: PolicyRef;
  readonly state: Readonly<Record<string, unknown>>;
  /** Some generation was cut by its length limit, or the context had no room left. */
  readonly isTruncated: boolean;
  /** Observations of which only the head was kept. */
  readonly cutObservations: number;
  /** The context or the response was truncated as upstream does; such a rollout is never trained on or exported. */
  readonly isCut: boolean;
  readonly timing: Omit<RolloutTiming, 'scoringMs'>;
}

export interface Rollout<R extends Row = Row> extends Omit<Played, 'timing'> {
  /** `<example id>/<index>`: unique within a run. */
  readonly rolloutId: string;
  /** Rollouts of one row share it. */
  readonly groupId: string;
  /** 0 to rollouts per example - 1. */
  readonly index: number;
  readonly row: R;
  /** Null when the rollout failed: a failure is never a reward of 0. */
  readonly reward: number | null;
  readonly metrics: Readonly<Record<string, number>>;
  /** How many rollouts of its group were scored together with it, itself included; 0 where it was not scored. */
  readonly scoredWith: number;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number; readonly cachedTokens: number | null };
  /** How often the episode was begun, from 1 up. */
  readonly attempts: number;
  readonly timing: RolloutTiming;
}

/** The rollouts of one row, played and scored. */
export interface ScoredGroup<R extends Row = Row> {
  readonly groupId: string;
  readonly row: R;
  /** By index; failed ones have an error and no reward. Those that a cancelled run did not come to are absent. */
  readonly rollouts: readonly Rollout<R>[];
}

/** A thrown value as data. What is no error of ours belongs to whoever ran: the policy's client, a reward, the environment. */
export function rolloutError(error: unknown, phase: RolloutPhase): RolloutError {
  const source = sourceOf(error, phase);
  const stack = stackTrace(error);
  return {
    type: error instanceof VfError ? error.name : FOREIGN[source],
    message: thrownText(error),
    chain: describeError(error),
    phase,
    source,
    retryable: error instanceof VfError && error.retryable,
    ...(stack === null ? {} : { stack }),
    ...(error instanceof VfError && error.isRetriedOut ? { isRetriedOut: true } : {}),
    ...(error instanceof VfError && error.endsRun ? { endsRun: true } : {}),
  };
}

const FOREIGN: Readonly<Record<FailureSource, string>> = {
  policy: 'PolicyError',
  environment: 'EnvironmentError',
  model: 'ModelError',
  reward: 'RewardError',
};

function sourceOf(error: unknown, phase: RolloutPhase): FailureSource {
  if (error instanceof PolicyError) return 'policy';
  if (error instanceof ModelError) return 'model';
  if (error instanceof RetrievalError || error instanceof ToolError || error instanceof EnvironmentError) return 'environment';
  if (phase === 'scoring') return 'reward';
  return phase === 'lease' || phase === 'prompt' || phase === 'generation' ? 'policy' : 'environment';
}

/** Sums over the generations. Input tokens count every prompt sent; cached is null as soon as one call did not say. */
export function sumUsage(generations: readonly Generation[]): Rollout['usage'] {
  let inputTokens = 0;
  let outputTokens = 0;
  let cachedTokens: number | null = 0;
  for (const { usage } of generations) {
    inputTokens += usage.promptTokens;
    outputTokens += usage.completionTokens;
    cachedTokens = cachedTokens === null || usage.cachedTokens === null ? null : cachedTokens + usage.cachedTokens;
  }
  return { inputTokens, outputTokens, cachedTokens };
}

/** The rollout with its score, or with the error that scoring met. */
export function withScore<R extends Row>(rollout: Rollout<R>, score: Score | RolloutError, scoringMs: number): Rollout<R> {
  const timing = { ...rollout.timing, scoringMs };
  if ('type' in score) return { ...rollout, timing, error: score, stop: 'has_error', reward: null, metrics: {} };
  return { ...rollout, timing, reward: score.reward, metrics: score.metrics };
}
