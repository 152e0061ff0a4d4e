/** The options of an evaluation, and the events that it reports while it runs. */
import type { AgentGateway } from '../agents/agent-gateway.ts';
import type { PolicyClient, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { RoleModels } from '../core/model.ts';
import type { TimeoutNames } from '../rollouts/deadline.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import type { Summary } from '../schemas/summary.ts';
import type { PolicyKind } from './policy-kind.ts';
import type { CostOptions } from './run-cost.ts';

/** The identity of a run, recorded in `metadata.json`. A resume requires all fields up to `policyKind` to be equal, except the base URL. */
export interface RunIdentity {
  /** For people; `isRunName` holds. @default none */
  readonly name?: string;
  readonly envId: string;
  readonly envArgs: Readonly<Record<string, unknown>>;
  readonly model: string;
  /** Null for a built-in policy. */
  readonly baseUrl: string | null;
  readonly policyKind: PolicyKind;
  /** The name of the model that plays each role. @default none */
  readonly roles?: Readonly<Record<string, string>>;
  /** Digests of the files that the run names, as its session records them. @default none */
  readonly inputs?: Readonly<Record<string, Record<string, string>>>;
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
  /** The policy. For an environment that asks models of its own, pass `NO_POLICY`. */
  readonly client: PolicyClient;
  readonly run: RunIdentity;
  readonly sampling: Sampling;
  /** What an agent asks for (temperature, `top_p`, further fields) gives way to `sampling`. @default false */
  readonly overridesSampling?: boolean;
  /** Where agents find the policy over HTTP. @default nowhere */
  readonly gateway?: AgentGateway;
  /** Number of rows of `environment.eval` to play, from the first. -1, and any number above their count, plays all: no row is played twice. */
  readonly numExamples: number;
  /** Rollouts of each row, at least 1. */
  readonly rolloutsPerExample: number;
  /** Rollouts in flight at once, at least 1. */
  readonly maxConcurrent: number;
  /** Seeds the environment, the built-in policy, the order of rows, and clients that send seeds. */
  readonly seed: number;
  readonly shuffle: boolean;
  readonly shuffleSeed: number;
  /** New tokens per rollout; null leaves it to the environment and the model's window. */
  readonly maxTokens: number | null;
  /** Wall clock per rollout; null waits as long as it takes. */
  readonly timeoutMs: number | null;
  /** Rollouts scored at once. @default maxConcurrent */
  readonly maxScoring?: number;
  /** Wall clock of the rewards of a rollout; null waits as long as it takes. @default timeoutMs */
  readonly scoringTimeoutMs?: number | null;
  /** Names of the two timeouts in errors. @default timeoutMs, scoringTimeoutMs */
  readonly timeoutNames?: TimeoutNames;
  /** The models of the environment's roles. @default none */
  readonly models?: RoleModels & { readonly stats?: ReadonlyMap<string, Pick<RoleStats, 'failures'>> };
  /** Prices of the models and the ceiling of the run. @default no figures and no ceiling */
  readonly cost?: CostOptions;
  /** Further attempts at a rollout that failed retryably. */
  readonly maxRetries: number;
  /** Scores every rollout alone: group rewards see groups of one. */
  readonly independentScoring: boolean;
  /** Keys of the episode's state to record as columns; a name that is already a column changes nothing. */
  readonly stateColumns: readonly string[];
  /** The run's own directory; created if missing. */
  readonly outputDir: string;
  /** How the caller continues the run, for errors. @default -R and the directory */
  readonly continuedWith?: string;
  /** Keeps the finished rollouts found in `outputDir`, plays the missing ones, and plays again those that failed. */
  readonly resume: boolean;
  /** Values that must not appear in any file (API keys). */
  readonly secrets: readonly string[];
  /** Aborting stops the run: rollouts in flight are cancelled and not recorded, finished ones are on disk. */
  readonly signal: AbortSignal;
  readonly onEvent?: (event: EvaluationEvent) => void;
}

/** The progress of a run; part of every event. */
export interface EvaluationProgress {
  /** Rollouts recorded so far, those found by a resume included. */
  readonly done: number;
  readonly total: number;
  /** Rollouts of `done` that failed. */
  readonly errored: number;
  /** Mean over the finished rollouts; null without any. */
  readonly rewardMean: number | null;
  /** The means of the metrics that the rubric marks as headlines. */
  readonly headlines: readonly { readonly name: string; readonly mean: number | null }[];
  /** Rollouts in flight. */
  readonly active: number;
}

export type EvaluationEvent =
  /** Sent once, before the first rollout. `kept`: finished rollouts found on disk; `redone`: failed ones that will be played again. */
  | { readonly type: 'started'; readonly directory: string; readonly kept: number; readonly redone: number; readonly progress: EvaluationProgress }
  /** The number of rollouts in flight changed. */
  | { readonly type: 'active'; readonly progress: EvaluationProgress }
  /** Something the user should know while the run goes on. */
  | { readonly type: 'notice'; readonly text: string; readonly progress: EvaluationProgress }
  /** A rollout was recorded. `error` is "Name: message", null for a finished one; `stack` is for developers and may hold secrets. */
  | {
      readonly type: 'rollout';
      readonly exampleId: string | number;
      readonly rolloutIndex: number;
      readonly reward: number | null;
      readonly stopCondition: string | null;
      readonly error: string | null;
      readonly stack?: string;
      readonly progress: EvaluationProgress;
    };

export interface EvaluationResult {
  readonly summary: Summary;
  readonly directory: string;
  /** True if the signal or the ceiling of its cost stopped the run before every rollout was recorded. */
  readonly interrupted: boolean;
}
