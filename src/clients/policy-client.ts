/**
 * The joint between rollouts and whatever samples: vLLM by token ids, any OpenAI-compatible API by messages, a built-in baseline, a
 * script. A client hands out leases; one lease serves one trajectory on one replica under one policy version.
 */
import type { Message, ToolCall } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import type { Sampling, Usage } from '../core/sampling.ts';
import type { SampledTokens } from '../core/token-buffer.ts';
import type { ToolCallFormat, ToolSpec } from '../core/tool-calls.ts';
import type { RenderNextOptions, RenderOptions } from '../tokenizer/policy-tokenizer.ts';

export type { RenderNextOptions, RenderOptions } from '../tokenizer/policy-tokenizer.ts';

export type { Sampling, Usage } from '../core/sampling.ts';

/** A published version of the policy. */
export interface PolicyRef {
  /** 0 for the weights the server started with, then rising by one per publish. */
  readonly version: number;
  /** The name sent as `model`: a base model or an adapter. */
  readonly model: string;
  /** Sent as `cache_salt`, so that no prefix cache is shared between versions. */
  readonly cacheSalt?: string;
}

export interface PolicyCapabilities {
  /** `tokens`: token ids in and out, trainable. `chat`: text only, for evaluation. */
  readonly kind: 'tokens' | 'chat';
  /** The model's window in tokens; null when the server does not say. */
  readonly maxModelLen: number | null;
  /** Identifies the tokenizer, so that an export can be checked against a trainer's. */
  readonly tokenizerHash: string | null;
  /** `raw`: before temperature and filters. `processed`: after. At temperature 1 and top_p 1 they are equal. */
  readonly logProbsMode: 'raw' | 'processed' | 'unknown' | 'none';
  /**
   * Tokens of this tokenizer per token that an environment's limits mean. Upstream's lengths count BPE tokens; a byte tokenizer needs
   * about five times as many for the same text. @default 1
   */
  readonly lengthScale?: number;
  /**
   * Of `tokens`: what renders a conversation of several turns. `model`: the model's own chat template. `chatml`: this package's ChatML,
   * for a model without one whose tokenizer has the control tokens. Null: nothing does. @default 'model'
   */
  readonly chatTemplate?: 'model' | 'chatml' | null;
  /** How native calls of tools come: as text that this parser reads, or structured by the server. Null: not at all. @default null */
  readonly toolCalls?: ToolCallFormat | 'structured' | null;
  /** Bare text of a prompt begins with BOS unless `never` is asked for: the model's tokenizer puts it there. @default it is found out */
  readonly beginsWithBos?: boolean;
  /** The control token that the chat template writes after a turn of the assistant; null where there is none. @default it is found out */
  readonly closingTokenId?: number | null;
  /** The policy goes on from text that opens its turn. @default true for `tokens`, false for `chat` */
  readonly prefill?: boolean;
  /** @default false */
  readonly images?: boolean;
}

export interface GenerateRequest<P> {
  readonly prompt: P;
  readonly sampling: Sampling;
  /** New tokens at most, from 1 up; null leaves it to the server. */
  readonly maxNewTokens: number | null;
  /** Strings that end the generation; they stay in the text. */
  readonly stop: readonly string[];
  /** Opens the assistant's turn; for chat policies that can. A token policy finds it in the prompt. @default none */
  readonly prefill?: string;
  /** Offered natively; for chat policies. A token policy finds them in the prompt. @default none */
  readonly tools?: readonly ToolSpec[];
  /** The prompt was cut and does not extend the last one of this lease; only `overlong: "upstream"` does that. @default false */
  readonly cut?: boolean;
  readonly signal: AbortSignal;
}

export interface TextSample {
  readonly text: string;
  readonly finish: 'stop' | 'length';
  /** The stop string or token id that ended it; null when the server does not say or it was the end-of-text token. */
  readonly stopReason: string | number | null;
  readonly usage: Usage;
  /** What the server told apart from `content`, which then is the rest of the turn; `text` spells them too. Chat policies only. */
  readonly toolCalls?: readonly ToolCall[];
  /** @default text */
  readonly content?: string;
}

export interface TokenSample extends TextSample, SampledTokens {}

interface LeaseBase extends AsyncDisposable {
  readonly policy: PolicyRef;
}

export interface TokenLease extends LeaseBase {
  readonly kind: 'tokens';
  /**
   * The prompt as the model's chat template renders it, generation prompt included. A model without a template gets ChatML in chat format
   * (the default), the bare text in continuation format.
   */
  render(messages: readonly Message[], options?: RenderOptions): Promise<Int32Array>;
  /**
   * What comes between two turns of the policy: the ids that close its turn, carry the `next` messages and open the next generation, as
   * the chat template renders them after an assistant message. `history` is all before that turn. Never any sampled id.
   */
  renderNext(history: readonly Message[], next: readonly Message[], options?: RenderNextOptions): Promise<Int32Array>;
  /** Environment text tokenised alone, without BOS; text that spells a control token never becomes one. */
  encode(text: string): Promise<Int32Array>;
  /** Text of ids that `encode` gave; used only where an observation is cut at a token. */
  decode(ids: Int32Array): Promise<string>;
  /** Each prompt must extend the last one of this lease unless `cut` says otherwise; a client throws PrefixBreakError if it does not. */
  generate(request: GenerateRequest<Int32Array>): Promise<TokenSample>;
}

export interface ChatLease extends LeaseBase {
  readonly kind: 'chat';
  generate(request: GenerateRequest<readonly Message[]>): Promise<TextSample>;
}

export type PolicyLease = TokenLease | ChatLease;

export interface PolicyClient {
  readonly capabilities: PolicyCapabilities;
  /** What to call the policy in results and summaries. */
  readonly name: string;
  /**
   * Waits for a free replica. Throws PolicyError when none can serve. `key` names the rollout (`<example id>/<index>`): a client that draws its own
   * random numbers derives them from it, so that a run is reproducible whatever the concurrency. `random` is the rollout's own, for clients that seed a server.
   */
  lease(signal: AbortSignal, options?: { readonly key?: string; readonly random?: Random }): Promise<PolicyLease>;
  close(): Promise<void>;
}
