/** Interface of the policy's tokenizer: conversations and text to token ids. */
import type { TurnFormat } from '../core/environment.ts';
import type { Message, PlacedImage } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';

export interface EncodedText {
  readonly ids: Int32Array;
  /** Number of spelled control tokens that were encoded as ordinary text. */
  readonly neutralised: number;
  /** The images among the ids, in order. @default none */
  readonly images?: readonly PlacedImage[];
  /** Text at the end of the ids that the template wrote into the policy's turn, behind its header: `<think>\n`. @default none */
  readonly opening?: string;
}

/** The way a vision-language model turns an image into tokens. */
export interface ImageTokenRules {
  /** Sides of the resized image are multiples of this: patch size times merge size. One token stands for a square of this side. */
  readonly unit: number;
  /** Bounds of the resized image's pixels. */
  readonly minPixels: number;
  readonly maxPixels: number;
  /** Most images in one prompt; null if the server does not say. */
  readonly maxPerPrompt: number | null;
  /** Ids that open an image, stand for one of its tokens, and close it. */
  readonly start: number;
  readonly pad: number;
  readonly end: number;
}

/** `model`: the model's own template. `chatml`: this package's, for a model without one whose tokenizer has the control tokens. Null: none. */
export type ChatTemplateKind = 'model' | 'chatml' | null;

/** Variables of a chat template other than messages and tools, by name. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

export interface RenderOptions {
  /** @default 'chat' */
  readonly format?: TurnFormat;
  /** Tools that the template lists. @default none */
  readonly tools?: readonly ToolSpec[];
  /** Other variables of the template: `enable_thinking`, `reasoning_effort`, `documents`, … @default none */
  readonly variables?: TemplateVariables;
  /** `model`: bare text begins with BOS if the tokenizer adds it. `never`: it does not. @default 'model' */
  readonly bos?: 'model' | 'never';
}

export interface RenderNextOptions {
  /** Tools that the template lists. @default none */
  readonly tools?: readonly ToolSpec[];
  /** Those of the first prompt. @default none */
  readonly variables?: TemplateVariables;
  /** The policy sampled the token that ends its turn, so the bridge must not contain it again. @default false */
  readonly isClosed?: boolean;
}

export interface PolicyTokenizer {
  /** Encodes text by itself, without BOS and without control tokens. Lone surrogates become U+FFFD first. */
  encode(text: string): Promise<EncodedText>;
  /** Text of ids from `encode`. */
  decode(ids: Int32Array): Promise<string>;
  /** The first prompt, generation prompt included. In continuation format, a model without its own template gets bare text. */
  render(messages: readonly Message[], options?: RenderOptions): Promise<EncodedText>;
  /** The bridge from the end of the policy's turn, which follows `history`, through the opening of its next one. Contains no sampled ids. */
  renderNext(history: readonly Message[], next: readonly Message[], options?: RenderNextOptions): Promise<EncodedText>;
  /** The template that renders chats. */
  chatTemplate(): Promise<ChatTemplateKind>;
  /** The control token that the template writes after an assistant turn; null if there is none. */
  closingToken(): Promise<number | null>;
}
