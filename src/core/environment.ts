/**
 * What an environment is: rows to play, an episode per row, and a rubric that judges the result. An episode never sees a model
 * client, so one rollout loop, a step server and a test can all drive it.
 */
import type { Dataset, Row } from './dataset.ts';
import type { Message } from './message.ts';
import type { Random } from './random.ts';
import type { Rubric } from './rubric.ts';

/**
 * Why a rollout ended. v0's words where they exist:
 * - `completed`: the environment says the task is done (in Search-R1: an answer was given)
 * - `max_turns_reached`: no turn is left
 * - `prompt_too_long`: the context has no room for another generation
 * - `max_total_completion_tokens_reached`: the rollout's own token budget is spent
 * - `timeout_reached`: the rollout's deadline passed
 * - `has_error`: something failed; the error is on the rollout and the reward is null
 * An environment may add its own.
 */
export type StopCondition =
  | 'completed'
  | 'max_turns_reached'
  | 'prompt_too_long'
  | 'max_total_completion_tokens_reached'
  | 'no_tools_called'
  | 'timeout_reached'
  | 'has_error'
  | (string & {});

/** Who wrote a stretch of the trajectory. Only `model` text is ever trained on. */
export type SegmentKind = 'prompt' | 'model' | 'observation' | 'corrective';

/** Lengths in tokens of the policy's tokenizer. They bind in token mode; chat mode sends `responseTokens` alone. */
export interface EnvironmentLimits {
  /** New tokens per generation, at least 1. */
  readonly responseTokens: number;
  /** Tokens kept of each observation: its head. `Infinity` keeps all. */
  readonly observationTokens: number;
  /** The longest context that a generation may start from; the model's own window may be smaller. */
  readonly contextTokens: number;
}

export interface StepResult {
  /** Text the environment adds before the next generation; null adds nothing. */
  readonly observation: { readonly text: string; readonly kind: Exclude<SegmentKind, 'model' | 'prompt'> } | null;
  /** Null while the episode goes on. */
  readonly stop: StopCondition | null;
}

/** One play of one row. Used once, then disposed. */
export interface Episode extends AsyncDisposable {
  readonly prompt: readonly Message[];
  /** Strings that end a generation, kept in the text. */
  readonly stop: readonly string[];
  /** What reward functions may read of the environment's bookkeeping; plain data. */
  readonly state: Readonly<Record<string, unknown>>;
  /** How many characters (UTF-16 units) of the sampled text are kept: the cut. */
  keep(sampled: string): number;
  /** Plays the kept text. Throws a VfError when the environment itself fails; a bad move of the model is an observation, not an error. */
  step(kept: string, signal: AbortSignal): Promise<StepResult>;
}

export interface EpisodeOptions {
  /** The episode's own stream of random numbers. */
  readonly random: Random;
  readonly signal: AbortSignal;
}

export interface Environment<R extends Row = Row> {
  readonly id: string;
  readonly train: Dataset<R>;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly limits: EnvironmentLimits;
  /** Names of the arguments that set the limits, so that a message can say which one to raise. */
  readonly limitArguments?: Readonly<Partial<Record<keyof EnvironmentLimits, string>>>;
  /**
   * `continuation`: the whole episode is one assistant turn, observations are raw text inside it.
   * `chat`: every observation is a user message of its own, so the episode needs a chat policy as soon as it has two turns.
   */
  readonly turnFormat: 'continuation' | 'chat';
  /**
   * What a full context means, unless the run says otherwise: `stop` ends the episode with `prompt_too_long`, `upstream` cuts as Search-R1 does,
   * for evaluation only. @default 'stop'
   */
  readonly overlong?: 'stop' | 'upstream';
  /** Lines the user should read before and after a run: approximations, comparability, deviations. */
  readonly notices?: readonly string[];
  /** JSON-ready facts about the environment that a results file should carry (data set revision, corpus hash, preset). */
  readonly provenance?: Readonly<Record<string, unknown>>;
  start(row: R, options: EpisodeOptions): Promise<Episode>;
  /** Frees retrievers, files and sockets. Safe to call twice. */
  close(): Promise<void>;
}
