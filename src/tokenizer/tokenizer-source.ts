/**
 * The calls that `ChatTokenizer` needs from a tokenizer, in a model directory on this machine or on a server. The two differ only in these calls, so that they give
 * the same ids.
 */
import { PolicyError } from '../core/errors.ts';
import type { TemplateVariables } from './policy-tokenizer.ts';
import type { PlainTemplateMessage, TemplateTool } from './template-messages.ts';

export interface TokenizedText {
  readonly ids: readonly number[];
  /** The vocabulary's spelling of each id; null if it has none. */
  readonly spellings: readonly (string | null)[];
}

export interface TemplateRequest {
  /** Without images. */
  readonly messages: readonly PlainTemplateMessage[];
  readonly tools: readonly TemplateTool[];
  /** Other variables of the template. @default none */
  readonly variables?: TemplateVariables;
  /** The text ends with the opening of an assistant turn. */
  readonly addGenerationPrompt: boolean;
  /** A text that the messages hold: the ids of what stands before it are not needed, and may be left out. @default all are needed */
  readonly from?: string;
}

export interface TokenizerSource {
  /** For error messages. */
  readonly name: string;
  /** Spelled control tokens become control tokens. With `addSpecialTokens`, adds BOS and the like, as the tokenizer does by default. */
  tokenize(text: string, options: { readonly addSpecialTokens: boolean }): Promise<TokenizedText>;
  /** The text, control tokens included. */
  detokenize(ids: readonly number[]): Promise<string>;
  /** True for a token that decoded text normally leaves out. */
  isControl(id: number, spelling: string): Promise<boolean>;
  /** Null if the model has no chat template. Rejects with PolicyError (status 400) if the template rejects the conversation. */
  renderTemplate(request: TemplateRequest): Promise<readonly number[] | null>;
}

/** True if the template rejected a conversation, as opposed to a failure of the tokenizer. */
export function isRefusal(error: unknown): boolean {
  return error instanceof PolicyError && error.status === 400;
}
