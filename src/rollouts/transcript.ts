/**
 * An episode as the policy sees it: token ids that only grow, or messages. The rollout loop uses both through one interface, so the same text
 * is scored in either case.
 */
import type { GenerateRequest, PolicyCapabilities, TextSample } from '../clients/policy-client.ts';
import type { EnvironmentLimits, Observation, StopCondition, TokenConventions, TurnFormat } from '../core/environment.ts';
import type { Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { ToolCallAttempt, ToolSpec } from '../core/tool-calls.ts';

export type Overlong = 'stop' | 'upstream';
export type GenerateOptions = Omit<GenerateRequest<never>, 'prompt' | 'maxNewTokens' | 'cut' | 'tools' | 'prefill'>;

export interface TranscriptOptions {
  readonly prompt: readonly Message[];
  /** Offered natively. */
  readonly tools: readonly ToolSpec[];
  /** Variables of the chat template, for a policy by token ids. */
  readonly variables: Readonly<Record<string, unknown>>;
  readonly limits: EnvironmentLimits;
  readonly capabilities: PolicyCapabilities;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  readonly overlong: Overlong;
  readonly turnFormat: TurnFormat;
  readonly tokens: TokenConventions;
  /** Rewards read the thoughts of a turn, and so does the environment. */
  readonly readsThoughts: boolean;
  /** Ends pending calls of the lease; nothing is appended after it aborts. */
  readonly signal: AbortSignal;
}

/** The kept part of a sample. */
export interface Committed {
  /** Tokens kept in the buffer; null in chat mode. */
  readonly tokens: number | null;
  /** Characters of the last kept token beyond the cut. */
  readonly overhang: string;
  /** Calls of the offered tools in the kept text. */
  readonly toolCalls: readonly ToolCallAttempt[];
  /** The reason why the episode cannot go on after this sample. @default it can */
  readonly stop?: StopCondition;
}

/** Most tokens of a turn, of an observation, of a context that a turn may start from, and of the model's window. */
export interface TranscriptLimits {
  readonly responseTokens: number;
  readonly observationTokens: number;
  readonly contextTokens: number;
  readonly windowTokens: number;
}

export interface Transcript {
  readonly segments: readonly TextSegment[];
  readonly tokens: TokenBuffer | null;
  /** Null in chat mode, where only the server counts tokens. */
  readonly limits: TranscriptLimits | null;
  readonly cutObservations: number;
  readonly isCut: boolean;
  /** The text that the model's chat template wrote into the turn that is open now, before the policy; empty if none. */
  readonly opening: string;
  /** Called before every generation, with the text that opens the assistant's turn, if any. */
  openTurn(prefill: string | undefined): Promise<void>;
  /** Most new tokens of the next generation: 0 when the context is full, null when only the server knows. */
  room(): number | null;
  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample>;
  /** Keeps the first `keptChars` characters of the sample just generated. */
  commit(sample: TextSample, keptChars: number): Committed;
  /**
   * Appends the environment's answer. `isLast`: no generation follows. A conversation then records the answer without adding tokens; continued
   * text still adds them, because they are scored.
   */
  observe(observation: Observation, options: { readonly isLast: boolean }): Promise<void>;
  /** The episode ends with the sample that was committed last. Returns the number of further tokens kept from that sample. */
  end(): number;
  /** The response side as it is scored. */
  scored(): Promise<readonly TextSegment[]>;
}
