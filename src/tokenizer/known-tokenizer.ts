/** A policy's tokenizer over a model's own: the same ids as a server of that model. */
import { PolicyError } from '../core/errors.ts';
import { ChatTokenizer } from './chat-tokenizer.ts';
import { TokenizerError } from './tokenizer-error.ts';
import type { TemplateRequest, TokenizedText, TokenizerSource } from './tokenizer-source.ts';
import type { ModelTokenizer, TokenBytes } from './tokenizer-types.ts';

/** A tokenizer that also knows the bytes of its tokens, so that sampled ids can be decoded one by one. */
export class LocalTokenizer extends ChatTokenizer {
  readonly vocabularySize: number;
  readonly bytes: TokenBytes;

  constructor(directory: string, model: ModelTokenizer) {
    super(new LocalSource(directory, model));
    this.vocabularySize = model.vocabularySize;
    this.bytes = model.bytes;
  }
}

class LocalSource implements TokenizerSource {
  readonly name: string;
  readonly #tokenizer: ModelTokenizer;

  constructor(name: string, tokenizer: ModelTokenizer) {
    this.name = name;
    this.#tokenizer = tokenizer;
  }

  async tokenize(text: string, options: { readonly addSpecialTokens: boolean }): Promise<TokenizedText> {
    const ids = [...this.#tokenizer.encode(text, options)];
    return { ids, spellings: ids.map((id) => this.#tokenizer.spelling(id)) };
  }

  async detokenize(ids: readonly number[]): Promise<string> {
    return this.#tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens: false });
  }

  async isControl(id: number): Promise<boolean> {
    return this.#tokenizer.isSpecial(id);
  }

  async renderTemplate({ messages, tools, variables: given, addGenerationPrompt, from }: TemplateRequest): Promise<readonly number[] | null> {
    const tokenizer = this.#tokenizer;
    if (!tokenizer.hasChatTemplate) return null;
    try {
      const variables = { ...given, ...(tools.length === 0 ? {} : { tools }) };
      const text = tokenizer.renderChat(messages as readonly object[] as readonly Record<string, unknown>[], {
        addGenerationPrompt,
        continueFinalMessage: false,
        variables,
      });
      const at = from === undefined ? -1 : onlyPlace(text, from);
      return [...tokenizer.encode(at === -1 ? text : text.slice(tokenizer.cutBefore(text, at)), { addSpecialTokens: false })];
    } catch (error) {
      if (!(error instanceof TokenizerError)) throw error;
      throw new PolicyError(`The model's chat template rejected the conversation: ${error.message}`, { cause: error, status: 400 });
    }
  }
}

/** -1 unless it occurs exactly once. */
function onlyPlace(text: string, part: string): number {
  const at = text.indexOf(part);
  return text.indexOf(part, at + 1) === -1 ? at : -1;
}
