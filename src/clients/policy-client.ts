/**
 * The interface between rollouts and their sampler: vLLM by token ids, any OpenAI-compatible API by messages, a built-in baseline, a
 * script. A client gives out leases; a lease serves one trajectory on one replica under one policy version.
 */
import type { Message, PlacedImage, RenderedTokens, ToolCall } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import type { Sampling, Usage } from '../core/sampling.ts';
import type { SampledTokens } from '../core/token-buffer.ts';
import type { ToolCallFormat, ToolSpec } from '../core/tool-calls.ts';
import type { ImageTokenRules, RenderNextOptions, RenderOptions } from '../tokenizer/policy-tokenizer.ts';

export type { ImageTokenRules, RenderNextOptions, RenderOptions } from '../tokenizer/policy-tokenizer.ts';

export type { Sampling, Usage } from '../core/sampling.ts';

/** A published version of the policy. */
export interface PolicyRef {
  /** 0 for the weights the server started with, higher for later ones. */
  readonly version: number;
  /** Sent as `model`: the name of a base model or an adapter. */
  readonly model: string;
  /** Sent as `cache_salt`, so that versions do not share a prefix cache. @default none */
  readonly cacheSalt?: string;
}

/** The abilities of a policy, known before the first rollout. */
export interface PolicyCapabilities {
  /** `tokens`: token ids in and out, trainable. `chat`: messages in and text out, for evaluation only. */
  readonly kind: 'tokens' | 'chat';
  /** The model's window in tokens (prompt and generation); null if unknown. */
  readonly maxModelLen: number | null;
  /** Identifies the tokenizer, so that a trainer can check that an export matches its own; null if unknown. */
  readonly tokenizerHash: string | null;
  /** `raw`: log-probs before temperature and filters. `processed`: after them. At temperature 1 and top_p 1 they are equal. */
  readonly logProbsMode: 'raw' | 'processed' | 'unknown' | 'none';
  /**
   * Multiplies an environment's token limits for this tokenizer. The limits count BPE tokens; a byte tokenizer needs about five times as many
   * for the same text. @default 1
   */
  readonly lengthScale?: number;
  /**
   * For `tokens`: the template that renders a conversation of several turns. `model`: the model's own chat template. `chatml`: this package's ChatML,
   * for a model without a template whose tokenizer has the control tokens. Null: multi-turn chats are not possible. @default 'model'
   */
  readonly chatTemplate?: 'model' | 'chatml' | null;
  /** The way native tool calls arrive: as text in this format, or parsed by the server (`structured`). Null: not supported. @default null */
  readonly toolCalls?: ToolCallFormat | 'structured' | null;
  /** The tokenizer puts BOS before a prompt of bare text. @default asked from the tokenizer when needed */
  readonly beginsWithBos?: boolean;
  /** The control token that the chat template writes after an assistant turn; null if there is none. @default asked from the tokenizer when needed */
  readonly closingTokenId?: number | null;
  /** The policy can continue text that opens its turn. @default true for `tokens`, false for `chat` */
  readonly prefill?: boolean;
  /** The engine in this process plays: its window has no flag. @default false */
  readonly isEmbedded?: boolean;
  /** Requests go without the sampling fields that are null or left out. @default false: such a field is 1 */
  readonly leavesOut?: boolean;
  /** Prompts may contain images. @default false */
  readonly images?: boolean;
  /** For `tokens` with images: the rules that turn an image into tokens. @default null */
  readonly imageTokens?: ImageTokenRules | null;
  /** The reason why prompts cannot contain images, and what to change, worded to follow "it"; null if they can. @default null, unknown */
  readonly blindBecause?: string | null;
}

/** One generation. `P` is the prompt: token ids or messages. */
export interface GenerateRequest<P> {
  readonly prompt: P;
  readonly sampling: Sampling;
  /** Maximum number of new tokens, at least 1; null leaves it to the server. */
  readonly maxNewTokens: number | null;
  /** Strings that end the generation; they stay in the text. */
  readonly stop: readonly string[];
  /** The text goes without the stop string that ends it. For chat policies. @default false */
  readonly dropsStop?: boolean;
  /** Opens the assistant's turn. For chat policies with `prefill`; a token policy has it in the prompt. @default none */
  readonly prefill?: string;
  /** Offered natively. For chat policies; a token policy has them in the prompt. @default none */
  readonly tools?: readonly ToolSpec[];
  /** The images in the prompt, in order. For token policies; a chat policy has them in its messages. @default none */
  readonly images?: readonly PlacedImage[];
  /** The seed of this generation, where seeds are sent. @default the next number of the lease's `random` */
  readonly seed?: number;
  /** Somebody asked for this seed, so it is sent to a server that gets none otherwise. @default false */
  readonly mustSeed?: boolean;
  /** Number of likeliest tokens to list for each sampled one, from 0 up. For token policies. @default 0, which lists none */
  readonly likeliest?: number;
  /** The prompt was truncated and does not extend the previous one of this lease; happens only with `overlong: "upstream"`. @default false */
  readonly cut?: boolean;
  readonly signal: AbortSignal;
}

export interface TextSample {
  /** Includes the stop string and the tool calls as text, but not the prefill. */
  readonly text: string;
  /** `length`: the token limit cut it off. */
  readonly finish: 'stop' | 'length';
  /** The stop string or token id that ended it; null for the end-of-text token, or if the server does not report it. */
  readonly stopReason: string | number | null;
  readonly usage: Usage;
  /** Tokens of thoughts, as the server counts them. Chat policies only. @default unknown */
  readonly reasoningTokens?: number;
  /** Calls that the server parsed out of the turn; `text` contains them too. Chat policies only. @default none */
  readonly toolCalls?: readonly ToolCall[];
  /** The turn without its `toolCalls`. @default text */
  readonly content?: string;
  /** Thoughts that the server returned outside the text. Chat policies only. @default none */
  readonly reasoning?: string;
  /** Fields of the server's message that later requests return to it. Chat policies only. @default none */
  readonly serverFields?: Readonly<Record<string, unknown>>;
  /** The server does not say whether a stop string ended the text: it was restored because its tag was open, or it may be missing. @default false */
  readonly stopIsGuess?: boolean;
  /** The server went on after a stop string; the text ends there. @default false */
  readonly stopWasIgnored?: boolean;
}

/** A sample with its token ids and log-probs. */
export interface TokenSample extends TextSample, SampledTokens {
  /** The likeliest tokens in the place of each sampled one, the likeliest first, in natural logarithms. [T]; [number asked for] each. @default not asked for */
  readonly likeliest?: readonly (readonly LikelyToken[])[];
}

export interface LikelyToken {
  readonly text: string;
  readonly logProb: number;
}

interface LeaseBase extends AsyncDisposable {
  readonly policy: PolicyRef;
  /** Told after each step of the environment what it said that the turn was worth by itself; null if it said nothing. @default not told */
  onTurnReward?(reward: number | null): void;
}

export interface LeaseOptions {
  /** A lease of the same rollout, still held: the new one has its version, whatever is current, and begins at its replica. @default the current version */
  readonly like?: PolicyLease;
  readonly key?: string;
  readonly random?: Random;
  readonly onWait?: () => Disposable;
}

/** A lease of a policy by token ids. Dispose it when the trajectory ends. */
export interface TokenLease extends LeaseBase {
  readonly kind: 'tokens';
  /**
   * The first prompt as the model's chat template renders it, generation prompt included. A model without a template gets ChatML in chat format
   * (the default), the bare text in continuation format.
   */
  render(messages: readonly Message[], options?: RenderOptions): Promise<RenderedTokens>;
  /**
   * The bridge between two turns of the policy: the ids that close its turn, contain the `next` messages and open the next generation, as
   * the chat template renders them after an assistant message. `history` is everything before that turn. Contains no sampled ids.
   */
  renderNext(history: readonly Message[], next: readonly Message[], options?: RenderNextOptions): Promise<RenderedTokens>;
  /** Environment text tokenised alone, without BOS; text that spells a control token never becomes one. */
  encode(text: string): Promise<Int32Array>;
  /** Text of ids from `encode`; used to truncate an observation at a token. */
  decode(ids: Int32Array): Promise<string>;
  /** Samples. Throws PrefixBreakError if the prompt does not extend the lease's previous one and is not marked `cut`. */
  generate(request: GenerateRequest<Int32Array>): Promise<TokenSample>;
}

/** A lease of a policy by messages. Dispose it when the trajectory ends. */
export interface ChatLease extends LeaseBase {
  readonly kind: 'chat';
  generate(request: GenerateRequest<readonly Message[]>): Promise<TextSample>;
}

export type PolicyLease = TokenLease | ChatLease;

/** A policy. `VllmTokensClient`, `OpenAIChatClient`, `ExtractiveClient`, `ScriptedClient` and `CallerPolicy` implement it. */
export interface PolicyClient {
  readonly capabilities: PolicyCapabilities;
  /** The policy's name in results and summaries. */
  readonly name: string;
  /** What the server made necessary so far, such as a field that it rejected; one sentence each, for the run's summary. @default none */
  readonly remarks?: readonly string[];
  /**
   * Starts a trajectory. Throws CancelledError if the signal has aborted, PolicyError if the client is closed. `key` names the rollout
   * (`<example id>/<index>`): a client that samples locally derives its random numbers from it, so that a run is reproducible at any concurrency.
   * `random` is the rollout's own generator, for clients that send seeds to a server. `onWait` is called when a request begins to wait for the rate limit
   * of a chat API; its result is disposed when the wait ends.
   */
  lease(signal: AbortSignal, options?: LeaseOptions): Promise<PolicyLease>;
  /** Closes connections; requests in flight fail. */
  close(): Promise<void>;
}

/** Whether a chat API is asked for streams. `auto`: once it has refused a plain request for being none, or a gateway has cut a silent connection. */
export type StreamSetting = 'auto' | boolean;
