/**
 * What an environment is: rows to play, an episode per row, and a rubric that judges the result. An episode never sees a model
 * client, so one rollout loop, a step server and a test can all drive it.
 */
import type { Dataset, Row } from './dataset.ts';
import type { Message } from './message.ts';
import type { Models, RoleDeclarations } from './model.ts';
import type { Random } from './random.ts';
import type { Rubric } from './rubric.ts';
import type { ToolCallAttempt, ToolSpec } from './tool-calls.ts';

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

/**
 * Who wrote a stretch of the trajectory. Only `model` text is ever trained on. `prefill` opens the assistant's turn in the policy's
 * place; `corrective` is an observation that tells the policy of a bad move.
 */
export type SegmentKind = 'prompt' | 'model' | 'prefill' | 'observation' | 'corrective';

/** Lengths in tokens of the policy's tokenizer. They bind in token mode; chat mode sends `responseTokens` alone. */
export interface EnvironmentLimits {
  /** New tokens per generation, at least 1. */
  readonly responseTokens: number;
  /** Tokens kept of each observation: its head. `Infinity` keeps all. */
  readonly observationTokens: number;
  /** The longest context that a generation may start from; the model's own window may be smaller. */
  readonly contextTokens: number;
}

/** How the next generation differs from what the episode says of all of them. */
export interface TurnOptions {
  /** Strings that end the generation, kept in the text. @default the episode's */
  readonly stop?: readonly string[];
  /** Text that opens the assistant's turn in the policy's place, mask 0. @default the episode's */
  readonly prefill?: string;
}

/**
 * What the environment adds before the next generation. `text` is raw text inside the assistant's turn in continuation format, a user
 * message in chat format. `messages` are for chat format alone: answers of tools, images.
 */
export type Observation = { readonly kind: Exclude<SegmentKind, 'model' | 'prompt' | 'prefill'> } & (
  | { readonly text: string }
  | { readonly messages: readonly Message[] }
);

export interface StepResult {
  /** Null adds nothing. */
  readonly observation: Observation | null;
  /** Null while the episode goes on. */
  readonly stop: StopCondition | null;
  /** For the next generation alone. */
  readonly next?: TurnOptions;
}

/** How a generation ended, beside its text. */
export interface StepContext {
  /** `length`: a limit on tokens cut it short. */
  readonly finish: 'stop' | 'length';
  /** The stop string or the id of the token that ended it; null where the policy does not say. */
  readonly stopReason: string | number | null;
  /** The calls of the episode's `tools` that the policy made, in order; empty where it has none. */
  readonly toolCalls: readonly ToolCallAttempt[];
  readonly signal: AbortSignal;
}

/** One play of one row. Used once, then disposed. */
export interface Episode extends AsyncDisposable {
  readonly prompt: readonly Message[];
  /** Tools that the policy is offered natively: its chat template or its API shows them. @default none */
  readonly tools?: readonly ToolSpec[];
  /** Strings that end a generation, kept in the text. */
  readonly stop: readonly string[];
  /** Text that opens every turn of the assistant, mask 0. @default none */
  readonly prefill?: string;
  /** @default the environment's */
  readonly limits?: EnvironmentLimits;
  /** @default the environment's */
  readonly turnFormat?: TurnFormat;
  /** @default the environment's */
  readonly tokens?: TokenConventions;
  /** What reward functions may read of the environment's bookkeeping; plain data. */
  readonly state: Readonly<Record<string, unknown>>;
  /** How many characters (UTF-16 units) of the sampled text are kept: the cut. */
  keep(sampled: string): number;
  /** Plays the kept text. Throws a VfError when the environment itself fails; a bad move of the model is an observation, not an error. */
  step(kept: string, context: StepContext): Promise<StepResult>;
}

export interface EpisodeOptions {
  /** The episode's own stream of random numbers. */
  readonly random: Random;
  /** The models of the environment's roles; what they are asked is recorded with the rollout. @default none */
  readonly models?: Models;
  readonly signal: AbortSignal;
}

/**
 * `continuation`: the whole episode is one assistant turn, observations are raw text inside it.
 * `chat`: turns of user (or tool) and assistant alternate, rendered by the model's chat template.
 */
export type TurnFormat = 'continuation' | 'chat';

/** What a model expects of its tokens and some published code does without. */
export interface TokenConventions {
  /**
   * `kept`: the token by which the policy ended its turn is sampled text like any other, so that ending a turn is trained. `dropped`: it
   * leaves the sequence. @default 'kept'
   */
  readonly endOfTurn?: 'kept' | 'dropped';
  /** `model`: bare text of a prompt begins with BOS where the model's tokenizer asks for one. `never`: it does not. @default 'model' */
  readonly bos?: 'model' | 'never';
}

/** What an environment cannot do without; a policy that cannot give it is refused before the run. */
export type PolicyNeed = 'native_tools' | 'prefill' | 'images';

export interface Environment<R extends Row = Row> {
  readonly id: string;
  readonly train: Dataset<R>;
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  readonly limits: EnvironmentLimits;
  /** Names of the arguments that set the limits, so that a message can say which one to raise. */
  readonly limitArguments?: Readonly<Partial<Record<keyof EnvironmentLimits, string>>>;
  readonly turnFormat: TurnFormat;
  /**
   * What a full context means, unless the run says otherwise: `stop` ends the episode with `prompt_too_long`, `upstream` cuts as Search-R1 does,
   * for evaluation only. @default 'stop'
   */
  readonly overlong?: 'stop' | 'upstream';
  /** @default end of turn kept, BOS where the model asks for it */
  readonly tokens?: TokenConventions;
  /** @default nothing */
  readonly needs?: readonly PolicyNeed[];
  /** Models that it plays or scores with, beside the policy. @default none */
  readonly roles?: RoleDeclarations;
  /** Lines the user should read before and after a run: approximations, comparability, deviations. */
  readonly notices?: readonly string[];
  /** JSON-ready facts about the environment that a results file should carry (data set revision, corpus hash, preset). */
  readonly provenance?: Readonly<Record<string, unknown>>;
  start(row: R, options: EpisodeOptions): Promise<Episode>;
  /** Frees retrievers, files and sockets. Safe to call twice. */
  close(): Promise<void>;
}
