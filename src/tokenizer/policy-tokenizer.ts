/** Conversations and text as token ids of the policy. */
import type { TurnFormat } from '../core/environment.ts';
import type { Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';

export interface EncodedText {
  readonly ids: Int32Array;
  /** Control tokens that the text spelled and that were broken up. */
  readonly neutralised: number;
}

/** `model`: the model's own. `chatml`: this package's, for a model without one whose tokenizer has the control tokens. Null: none. */
export type ChatTemplateKind = 'model' | 'chatml' | null;

export interface RenderOptions {
  /** @default 'chat' */
  readonly format?: TurnFormat;
  /** Shown by the template. @default none */
  readonly tools?: readonly ToolSpec[];
  /** Of bare text. @default 'model' */
  readonly bos?: 'model' | 'never';
}

export interface RenderNextOptions {
  /** @default none */
  readonly tools?: readonly ToolSpec[];
  /** The policy sampled the token that ends its turn, so that the bridge must not hold another. @default false */
  readonly isClosed?: boolean;
}

export interface PolicyTokenizer {
  /** Tokenised alone, without BOS. Lone surrogates become U+FFFD first. */
  encode(text: string): Promise<EncodedText>;
  /** Text of ids that `encode` gave. */
  decode(ids: Int32Array): Promise<string>;
  /** The chat template's rendering with the generation prompt; in continuation format bare text where the model has no template of its own. */
  render(messages: readonly Message[], options?: RenderOptions): Promise<EncodedText>;
  /** What comes between a turn of the policy, which follows on `history`, and its next one. */
  renderNext(history: readonly Message[], next: readonly Message[], options?: RenderNextOptions): Promise<EncodedText>;
  chatTemplate(): Promise<ChatTemplateKind>;
  /** The control token that the template writes after a turn of the assistant; null where there is none. */
  closingToken(): Promise<number | null>;
}
