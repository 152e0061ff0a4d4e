/**
 * The joint between rollouts and whatever samples: vLLM by token ids, any OpenAI-compatible API by messages, a built-in baseline, a
 * script. A client hands out leases; one lease serves one trajectory on one replica under one policy version.
 */
import type { Message } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import type { SampledTokens } from '../core/token-buffer.ts';

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
}

/** Sent explicitly with every request, so that a server's own generation defaults never apply. */
export interface Sampling {
  /** 0 is greedy. @default 1 */
  readonly temperature: number;
  /** In (0, 1]; below 1 the log-probs cannot be reproduced by a trainer. @default 1 */
  readonly topP: number;
  /** Further fields of the wire, passed through as they are (`top_k`, `min_p`, ...). */
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface GenerateRequest<P> {
  readonly prompt: P;
  readonly sampling: Sampling;
  /** New tokens at most, from 1 up; null leaves it to the server. */
  readonly maxNewTokens: number | null;
  /** Strings that end the generation; they stay in the text. */
  readonly stop: readonly string[];
  /** The prompt was cut and does not extend the last one of this lease; only `overlong: "upstream"` does that. @default false */
  readonly cut?: boolean;
  readonly signal: AbortSignal;
}

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens served from the prefix cache; null when the server does not say. */
  readonly cachedTokens: number | null;
}

export interface TextSample {
  readonly text: string;
  readonly finish: 'stop' | 'length';
  /** The stop string or token id that ended it; null when the server does not say or it was the end-of-text token. */
  readonly stopReason: string | number | null;
  readonly usage: Usage;
}

export interface TokenSample extends TextSample, SampledTokens {}

interface LeaseBase extends AsyncDisposable {
  readonly policy: PolicyRef;
}

export interface TokenLease extends LeaseBase {
  readonly kind: 'tokens';
  /** The prompt as the model's chat template renders it, generation prompt included; the bare text where there is no template. */
  render(messages: readonly Message[]): Promise<Int32Array>;
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
