/** A caller's request for an evaluation. Only `environment` has no default. */
import type { RoleTables } from '../../schemas/roles-config.ts';
import type { PolicySpec } from '../policy/policy-spec.ts';

export interface EvaluationRequest {
  /** An id, or the path of a folder or module. */
  readonly environment: string;
  /** The run's name in lists, comparisons and cards. @default none; a resumed run keeps its own */
  readonly name?: string;
  /** Arguments of the environment. @default {} */
  readonly args?: Readonly<Record<string, unknown>>;
  /** Folder of your own environments. @default ./environments */
  readonly environmentsDir?: string;
  /** @default the server of the environment variable VF_BASE_URL, else the environment's baseline */
  readonly policy?: PolicySpec;
  /** Models by role, with their limits. @default the environment's declaration */
  readonly roles?: RoleTables;
  /** New tokens per generation. @default the environment decides */
  readonly maxTokens?: number;
  /** 0 to 100; 0 is greedy. @default the server's own for a chat API, else 1 */
  readonly temperature?: number;
  /** Above 0, at most 1: probability of the tokens to sample from. @default the server's own for a chat API, else 1 */
  readonly topP?: number;
  /** Further fields of the request, such as `top_k`; they override `maxTokens`, `temperature` and `topP`, and a chat API gets no field that is null. @default {} */
  readonly sampling?: Readonly<Record<string, unknown>>;
  /** The settings above hold also where an agent asks for others; no effect on other environments. @default false: the agent's hold */
  readonly overrideSampling?: boolean;
  /** Ends the run if a chat API, of the policy or of a role, does not say whether a stop string ended its text. @default false: it is guessed and counted */
  readonly strictStops?: boolean;
  /** Rows to play, at least 1; -1 plays all. @default the environment's own number, else 5 */
  readonly rows?: number;
  /** Rollouts of each row, at least 1. @default the environment's own number, else 1 */
  readonly rolloutsPerRow?: number;
  /** Seeds the order of rows, the baseline and a model in this process; never sent to other servers. @default 0 */
  readonly seed?: number;
  /** Plays the rows in random order. @default false */
  readonly shuffle?: boolean;
  /** Seed of the random order. @default seed */
  readonly shuffleSeed?: number;
  /** Rollouts in flight at once, at least 1. @default 32 */
  readonly maxConcurrent?: number;
  /** Rollouts scored at once, in addition to those in flight. @default maxConcurrent */
  readonly maxScoring?: number;
  /** Milliseconds per rollout; null for no limit. @default null */
  readonly timeoutMs?: number | null;
  /** Milliseconds to compute the rewards of a rollout; null for no limit. @default timeoutMs */
  readonly scoringTimeoutMs?: number | null;
  /** Retries after a transient failure. @default 3 */
  readonly maxRetries?: number;
  /** The longest wait for a server that limits the rate of requests, in milliseconds; 0 fails at once. @default 3600000 */
  readonly maxWaitMs?: number;
  /** Begins no further rows once the run has cost this many US dollars; needs the price of every model. @default no limit */
  readonly maxCostUsd?: number;
  /** Scores each rollout alone, without group rewards. @default false */
  readonly independentScoring?: boolean;
  /** Folder in which runs get folders of their own. @default ./outputs */
  readonly output?: string;
  /** A run's folder: continues that run. True: continues the newest matching run, if there is one. @default a new run */
  readonly resume?: string | boolean;
  /** With `resume`: goes on although an adapter, a corpus or another file that the settings name has other contents than before. @default false */
  readonly allowChanges?: boolean;
  /** Keys of the episode's state to record as columns. @default none */
  readonly stateColumns?: readonly string[];
}

export const EVALUATION_DEFAULTS = { rows: 5, rolloutsPerRow: 1, maxConcurrent: 32, maxRetries: 3, seed: 0 };
