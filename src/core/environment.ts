/**
 * The environment interface: rows to play, an episode per row, and a rubric that scores the result. An episode never sees a policy client, so the
 * rollout loop, a step server and a test can all drive it.
 */
import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { Dataset, Row } from './dataset.ts';
import type { ImageSizes } from './image-size.ts';
import type { ImageStore, Message } from './message.ts';
import type { Models, RoleDeclarations } from './model.ts';
import type { Random } from './random.ts';
import type { RewardContext, Rubric, TextSegment } from './rubric.ts';
import type { ToolCallAttempt, ToolSpec } from './tool-calls.ts';

/**
 * The reason why a rollout ended, in the words of verifiers v0 if it has them:
 * - `completed`: the environment ended the episode (in Search-R1: an answer was given)
 * - `max_turns_reached`: no turn is left
 * - `prompt_too_long`: the context has no room for another generation; before the first one, the rollout failed
 * - `max_total_completion_tokens_reached`: the rollout's token budget is spent
 * - `vision_token_sampled`: the policy wrote a token that opens, fills or closes an image, after which its prompts would be ambiguous
 * - `no_tools_called`: a turn in a ToolEnv called no tool
 * - `timeout_reached`: the rollout's deadline passed
 * - `has_error`: something failed; the error is on the rollout and the reward is null
 * Environments may add their own.
 */
export type StopCondition =
  | 'completed'
  | 'max_turns_reached'
  | 'prompt_too_long'
  | 'max_total_completion_tokens_reached'
  | 'vision_token_sampled'
  | 'no_tools_called'
  | 'timeout_reached'
  | 'has_error'
  | (string & {});

/**
 * The author of a segment of the trajectory. Only `model` segments are trained on. `prefill` opens the assistant's turn for the policy;
 * `corrective` is an observation that points out an invalid action.
 */
export type SegmentKind = 'prompt' | 'model' | 'prefill' | 'observation' | 'corrective';

/** Lengths in tokens of the policy's tokenizer; `Infinity` is no limit. For chat policies, only `responseTokens` and `completionTokens` apply. */
export interface EnvironmentLimits {
  /** Maximum number of new tokens per generation, at least 1. */
  readonly responseTokens: number;
  /** Number of tokens kept from the start of each observation, or of each message if an observation has several, such as tool results. */
  readonly observationTokens: number;
  /** The longest context that a generation may start from. The model's window may be smaller. */
  readonly contextTokens: number;
  /**
   * Tokens of the policy that are kept in the whole rollout, at least 1. The generation that would pass it is cut off, and no other begins: the
   * episode ends with `max_total_completion_tokens_reached`. @default Infinity
   */
  readonly completionTokens?: number;
}

/** Overrides the episode's settings for the next generation. */
export interface TurnOptions {
  /** Strings that end the generation; they stay in the text. @default the episode's */
  readonly stop?: readonly string[];
  /** Text that opens the assistant's turn for the policy, mask 0. @default the episode's */
  readonly prefill?: string;
}

/**
 * The environment's addition before the next generation. `text` becomes raw text inside the assistant's turn in continuation format, a user message in
 * chat format. `messages` are for chat format only: tool answers, images.
 */
export type Observation = { readonly kind: Exclude<SegmentKind, 'model' | 'prompt' | 'prefill'> } & (
  | { readonly text: string }
  | { readonly messages: readonly Message[] }
);

/** The environment's response to a generation. */
export interface StepResult {
  /** Null adds nothing. */
  readonly observation: Observation | null;
  /** The reason why the episode ends; null if it continues. */
  readonly stop: StopCondition | null;
  /** Settings for the next generation only. */
  readonly next?: TurnOptions;
  /**
   * What the generation was worth by itself, finite; recorded, and read by a credit such as `algorithm.advantage.use = "turns"`. It is not part of the rollout's
   * reward, which is the rubric's. @default none, which is not 0
   */
  readonly reward?: number;
}

/**
 * Reports what happened in an episode, such as a search and its results, for the trace of the run. Fields are plain data in snake_case; a picture is named by
 * its SHA-256. Costs nothing if the run keeps no trace.
 * @example context.trace?.('search.request', { query });
 */
export type Trace = (event: string, fields: Readonly<Record<string, unknown>>) => void;

/** The end of a generation, and its tool calls. */
export interface StepContext {
  /** `length`: a token limit cut it off. */
  readonly finish: 'stop' | 'length';
  /** The stop string or token id that ended it; null if the policy does not report it. */
  readonly stopReason: string | number | null;
  /** The beginning of the kept text that the policy did not sample: its chat template wrote it into the turn, such as `<think>\n`. @default none */
  readonly opening?: string;
  /** The policy's native calls of the episode's `tools`, in order; empty if the episode has no tools. */
  readonly toolCalls: readonly ToolCallAttempt[];
  /** Absent unless the environment `traces`. */
  readonly trace?: Trace;
  readonly signal: AbortSignal;
}

/** The way an episode is played. An environment sets this for all its episodes; an episode may override it. */
export interface EpisodeConventions {
  readonly limits: EnvironmentLimits;
  readonly turnFormat: TurnFormat;
  /**
   * At a full context, unless the run overrides it: `stop` ends the episode with `prompt_too_long`; `upstream` truncates as Search-R1 does, for
   * evaluation only. @default 'stop'
   */
  readonly overlong?: 'stop' | 'upstream';
  /** @default the end-of-turn token is kept; BOS if the model's tokenizer adds it */
  readonly tokens?: TokenConventions;
}

/** One play of one row: used once, then disposed. Conventions that it leaves out are its environment's. */
export interface Episode extends AsyncDisposable, Partial<EpisodeConventions> {
  readonly prompt: readonly Message[];
  /** Tools that are offered natively, through the model's chat template or its API. @default none */
  readonly tools?: readonly ToolSpec[];
  /** Strings that end a generation; they stay in the text. */
  readonly stop: readonly string[];
  /** Text that opens every assistant turn, mask 0. @default none */
  readonly prefill?: string;
  /** The environment's state for reward functions; plain data. */
  readonly state: Readonly<Record<string, unknown>>;
  /** Returns how many characters (UTF-16 units) of the sampled text are kept; the rest is dropped. */
  keep(sampled: string): number;
  /** Responds to the kept text. Throws a VfError if the environment itself fails; an invalid action of the policy is an observation, not an error. */
  step(kept: string, context: StepContext): Promise<StepResult>;
}

/** The parts that an environment receives for one episode. */
export interface EpisodeOptions {
  /** The episode's own generator of random numbers. */
  readonly random: Random;
  /** The models of the environment's roles; calls are recorded with the rollout. @default none */
  readonly models?: Models;
  /** The sizes at which the policy sees images unchanged; its server resizes others. Null or absent if unknown. */
  readonly imageSizes?: ImageSizes | null;
  readonly signal: AbortSignal;
}

/**
 * `continuation`: the whole episode is one assistant turn, observations are raw text inside it.
 * `chat`: turns of user (or tool) and assistant alternate, rendered by the model's chat template.
 */
export type TurnFormat = 'continuation' | 'chat';

/** Token conventions that models expect but some published code does not follow. */
export interface TokenConventions {
  /**
   * `kept`: the token with which the policy ended its turn is a sampled token with mask 1, so that ending a turn is trained. `dropped`: it is removed
   * from the sequence. @default 'kept'
   */
  readonly endOfTurn?: 'kept' | 'dropped';
  /** `model`: a prompt of bare text begins with BOS if the model's tokenizer adds it. `never`: it does not. @default 'model' */
  readonly bos?: 'model' | 'never';
}

/** A feature that an environment requires of the policy; a policy without it is rejected before the run. */
export type PolicyNeed = 'native_tools' | 'prefill' | 'images';

/**
 * The policy as an agent asks it: with a whole list of messages each time, in the process or over an API. Every turn is recorded as it was sampled. Once the rollout has
 * ended, requests are refused.
 */
export interface AgentPolicy {
  /** The model to ask for. A request under the name of one of the environment's roles asks that role's model; any other name asks the policy. */
  readonly name: string;
  /** The policy as a model of the AI SDK, in this process. */
  languageModel(): LanguageModelV4;
  /**
   * The address of an API of this rollout alone, on loopback, for clients of OpenAI's Chat Completions and Responses and of Anthropic's Messages. It ends in `/v1`, which
   * clients of Anthropic may append once more. Throws ConfigError where no server can run, as in a page.
   */
  readonly baseURL: string;
  /** The key for that address, which is also enough to find the rollout for clients that take no path. */
  readonly apiKey: string;
  /** The policy in another role, such as a sub-agent: what it writes there becomes branches of that role, which `scope` and `losses.*.roles` know. */
  as(role: string): AgentPolicy;
}

/** What an agent receives for one row. */
export interface PlayOptions extends EpisodeOptions {
  /** Refuses requests in an environment that does not ask the policy. */
  readonly policy: AgentPolicy;
}

/** The result of an agent that has played a row. An agent that fails throws, and its rollout then has no reward. */
export interface AgentResult {
  /** For reward functions and state columns; plain data. */
  readonly state: Readonly<Record<string, unknown>>;
  /** @default 'completed' */
  readonly stop?: StopCondition;
  /**
   * The texts that were read and written, in order, for reading and scoring: the agent's models wrote those of kind `model` and were shown those of kind
   * `observation`. @default what the policy was asked and answered
   */
  readonly segments?: readonly TextSegment[];
}

/** A branch of an agent's rollout, for a reward of its own. */
export interface BranchContext<R extends Row = Row> {
  readonly row: R;
  readonly state: Readonly<Record<string, unknown>>;
  /** From 0 up. */
  readonly index: number;
  readonly parent: number | null;
  /** Null if the agent named none. */
  readonly role: string | null;
  readonly prompt: readonly Message[];
  readonly segments: readonly TextSegment[];
}

/** The models that an environment calls by itself, without the policy, for results and messages. */
export interface ProgramModels {
  /** Their name in results and folders, such as `Qwen/QwQ-32B`. */
  readonly name: string;
  /** One line that says which server is asked for what, without credentials. Null if the program calls no model. */
  readonly description: string | null;
  /** The way to choose other models, worded to follow "Choose them with": `-a '{"set": ["generation.model_name=NAME"]}'`. @default not said */
  readonly choice?: string;
  /** The arguments with which it asks the policy instead, worded to follow "Train it with": `-a '{"backend": "policy"}'`. @default none */
  readonly trainable?: string;
}

/** A policy without a model: `vf-eval` plays it if the user names no model, and it is a floor for comparisons. */
export interface Baseline {
  /** The name in results and folders, such as `last-literal-baseline`. */
  readonly name: string;
  /** The way it answers, worded to follow "the built-in baseline plays:". */
  readonly description: string;
  /** Writes the next turn. A pure function of the messages so far. */
  reply(messages: readonly Message[]): string;
}

/** An environment as `vf-eval` and `vf-train` play it. Extend `SingleTurnEnv`, `MultiTurnEnv`, `ToolEnv` or `AgentEnv` rather than implementing this directly. */
export interface Environment<R extends Row = Row> extends EpisodeConventions {
  readonly id: string;
  /** Rows for training. Reading it throws ConfigError if there are none, as in an environment that was loaded for evaluation. */
  readonly train: Dataset<R>;
  /** Rows for evaluation. */
  readonly eval: Dataset<R>;
  readonly rubric: Rubric<R>;
  /** Names of the arguments that set the limits, so that a message can name the one to raise. */
  readonly limitArguments?: Readonly<Partial<Record<keyof EnvironmentLimits, string>>>;
  /** All formats of its episodes, if they differ. @default turnFormat alone */
  readonly turnFormats?: readonly TurnFormat[];
  /** Features that the policy must support. @default none */
  readonly needs?: readonly PolicyNeed[];
  /** The way to make it show text instead of images, worded to follow "or": `set observations to "ocr"`. @default it cannot */
  readonly withoutImages?: string;
  /** Provides the bytes of the images that its messages show. @default none */
  readonly images?: ImageStore;
  /** Models other than the policy that episodes or rewards call. @default none */
  readonly roles?: RoleDeclarations;
  /** @default the extractive baseline, which searches for the question and answers with a span of a passage */
  readonly baseline?: Baseline;
  /** Runs keep a `trace.jsonl`: every turn of the policy, reports of episodes with `StepContext.trace`, calls of models by role, rewards. @default false */
  readonly traces?: boolean;
  /** Lines for the user before and after a run: approximations, comparability, deviations. */
  readonly notices?: readonly string[];
  /** Facts for the results file, as JSON: data set revision, corpus hash, preset. */
  readonly provenance?: Readonly<Record<string, unknown>>;
  /** Starts an episode, which a policy plays. Episodes run concurrently. Rejects with ConfigError in an environment with `play`. */
  start(row: R, options: EpisodeOptions): Promise<Episode>;
  /** Makes the environment an agent: a program plays the row itself and asks the policy, models of its own, or both. @default a policy plays the episode of `start` */
  play?(row: R, options: PlayOptions): Promise<AgentResult>;
  /** In a group: the environment that a row came from, and the row as it was there. @default the environment itself */
  memberOf?(row: R): { readonly environment: Environment<R>; readonly row: R };
  /** `play`, its own or that of a member, asks the policy, which is recorded and can be trained. False: it asks models of its own (`programModels`). @default false */
  readonly asksPolicy?: boolean;
  /** Most turns of the policy in a rollout of an agent. @default no limit but the tokens' */
  readonly maxTurns?: number;
  /** What a failure of the agent is: a rollout without a reward, or one that is scored with the state that there is. @default 'fail' */
  readonly failures?: 'fail' | 'score';
  /** The reward of one branch of an agent's rollout; null leaves it to the rollout's. Called when the rollout has its own reward. @default the rollout's */
  branchReward?(context: BranchContext<R>): number | null;
  /**
   * Runs once for every episode that was played to its end, before its rewards: for example a frozen model that answers from the collected passages, or a compiler
   * that runs the written code. It runs where rewards are computed, outside the episode's slot, with the slots, deadline and retries of scoring. What it returns is
   * merged into the state that rewards, metrics and state columns read; plain data. If it fails, the rollout has no reward. @default nothing
   */
  finish?(context: RewardContext<R>): Promise<Readonly<Record<string, unknown>>>;
  /** The models that `play` calls without the policy. @default not named */
  readonly programModels?: ProgramModels;
  /** Frees retrievers, files and sockets. Safe to call twice. */
  close(): Promise<void>;
}
