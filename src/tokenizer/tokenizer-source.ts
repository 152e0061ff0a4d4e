/**
 * What conversations need of a tokenizer, wherever it is: a model directory on this machine or a server. The two differ in these five calls alone, so that
 * they give the same ids.
 */
import { PolicyError } from '../core/errors.ts';
import type { TemplateMessage, TemplateTool } from './template-messages.ts';

export interface TokenizedText {
  readonly ids: readonly number[];
  /** The vocabulary's own spelling of each id; null where it has none. */
  readonly spellings: readonly (string | null)[];
}

export interface TemplateRequest {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly TemplateTool[];
  /** The text ends where the assistant begins. */
  readonly addGenerationPrompt: boolean;
}

export interface TokenizerSource {
  /** For error messages. */
  readonly name: string;
  /** Control tokens that the text spells become control tokens. `addSpecialTokens`: with BOS and the like, as the tokenizer itself adds them. */
  tokenize(text: string, options: { readonly addSpecialTokens: boolean }): Promise<TokenizedText>;
  /** Control tokens have text, too. */
  detokenize(ids: readonly number[]): Promise<string>;
  /** True for a token that is left out of decoded text. */
  isControl(id: number, spelling: string): Promise<boolean>;
  /** Null where the model has no chat template. Rejects with PolicyError where the template refuses the conversation. */
  renderTemplate(request: TemplateRequest): Promise<readonly number[] | null>;
}

/** The template says no to a conversation; the tokenizer itself works. */
export function isRefusal(error: unknown): boolean {
  return error instanceof PolicyError && error.status === 400;
}
