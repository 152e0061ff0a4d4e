/**
 * Many rollouts, written to disk as they finish, and their summary. Which policy, retriever and environment are used is decided by
 * the caller; limits, retries and deadlines of a rollout belong to `rollouts/`.
 */
import type { PolicyClient, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { VfError } from '../core/errors.ts';
import type { Summary } from '../schemas/summary.ts';

/** What a run is: recorded in `metadata.json`. The fields up to `policyKind` must be equal for a run to be resumed. */
export interface RunIdentity {
  readonly envId: string;
  readonly envArgs: Readonly<Record<string, unknown>>;
  readonly model: string;
  /** Null for a built-in policy. */
  readonly baseUrl: string | null;
  readonly policyKind: 'tokens' | 'chat';
  /** The alias in `endpoints.toml`, when one was used. */
  readonly endpointName?: string;
  /** Version of this package. */
  readonly packageVersion: string;
  /** Commit of the checkout, when known. */
  readonly gitCommit?: string;
  /** Version of the environment's own package, when it has one. */
  readonly environmentVersion?: string;
}

export interface EvaluationOptions<R extends Row = Row> {
  readonly environment: Environment<R>;
  readonly client: PolicyClient;
  readonly run: RunIdentity;
  readonly sampling: Sampling;
  /** Rows of `environment.eval` to play, from the first; -1 plays all. */
  readonly numExamples: number;
  /** Rollouts of each row, at least 1. */
  readonly rolloutsPerExample: number;
  /** Rollouts in flight at once, at least 1. */
  readonly maxConcurrent: number;
  /** Seeds the environment, the built-in policy and the order of rows; never sent on the wire. */
  readonly seed: number;
  readonly shuffle: boolean;
  readonly shuffleSeed: number;
  /** New tokens per rollout; null leaves it to the environment and the model's window. */
  readonly maxTokens: number | null;
  /** Wall clock per rollout; null waits as long as it takes. */
  readonly timeoutMs: number | null;
  /** Further attempts at a rollout that failed for a reason that may pass. */
  readonly maxRetries: number;
  /** Scores every rollout by itself: group rewards see groups of one. */
  readonly independentScoring: boolean;
  /** Keys of the episode's state to record as columns. */
  readonly stateColumns: readonly string[];
  /** The run's own directory; made when missing. */
  readonly outputDir: string;
  /** Keeps the finished rollouts found in `outputDir`, plays the missing ones, and plays again those that failed. */
  readonly resume: boolean;
  /** Values that must not appear in any file (API keys). */
  readonly secrets: readonly string[];
  /** Aborting stops the run: rollouts in flight are cancelled and absent, what finished is on disk. */
  readonly signal: AbortSignal;
  readonly onEvent?: (event: EvaluationEvent) => void;
}

/** Where a run stands; carried by every event. */
export interface EvaluationProgress {
  /** Rollouts recorded so far, those found by a resume included. */
  readonly done: number;
  readonly total: number;
  /** Of `done`: recorded as failed. */
  readonly errored: number;
  /** Mean over the finished rollouts; null while there is none. */
  readonly rewardMean: number | null;
}

export type EvaluationEvent =
  /** Once, before the first rollout. `kept`: finished rollouts found on disk; `redone`: failed ones that will be played again. */
  | { readonly type: 'started'; readonly directory: string; readonly kept: number; readonly redone: number; readonly progress: EvaluationProgress }
  /** A rollout was recorded. `error` is "Name: message", null for a finished one. */
  | {
      readonly type: 'rollout';
      readonly exampleId: string | number;
      readonly rolloutIndex: number;
      readonly reward: number | null;
      readonly stopCondition: string | null;
      readonly error: string | null;
      readonly progress: EvaluationProgress;
    };

export interface EvaluationResult {
  readonly summary: Summary;
  readonly directory: string;
  /** True when the signal stopped the run before every rollout was recorded. */
  readonly interrupted: boolean;
}

/**
 * Plays the environment's rows and records every rollout in `outputDir`. Throws ConfigError for options that cannot be used, for a
 * directory that another process writes to and for a resume under another configuration; ResultsError when a file cannot be written.
 */
export async function evaluate<R extends Row>(options: EvaluationOptions<R>): Promise<EvaluationResult> {
  throw new VfError(`Expected evaluate to exist, it is being written: ${options.run.envId}`);
}
