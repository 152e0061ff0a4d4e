/** Encodes and decodes text with the model's tokenizer.json. Byte-level BPE, as in Qwen and Llama 3, and BPE with byte fallback, as in Gemma 3. */

export interface ModelTokenizer {
  readonly vocabularySize: number;
  /** chat_template.jinja or tokenizer_config.json has a chat template. */
  readonly hasChatTemplate: boolean;
  /** Spelled control tokens become control tokens, as in vLLM. */
  encode(text: string, options: { readonly addSpecialTokens: boolean }): Int32Array;
  /** The last place up to `at` where the text may be cut without changing the ids of what follows; 0 if there is none. */
  cutBefore(text: string, at: number): number;
  decode(ids: Int32Array, options: { readonly skipSpecialTokens: boolean }): string;
  /** The vocabulary's spelling of a token (`Ġthe`); null if the id has none. */
  spelling(id: number): string | null;
  isSpecial(id: number): boolean;
  /** The text of the prompt. Throws TokenizerError if there is no template or it rejects the messages. */
  renderChat(
    messages: readonly Readonly<Record<string, unknown>>[],
    options: { readonly addGenerationPrompt: boolean; readonly continueFinalMessage: boolean; readonly variables: Readonly<Record<string, unknown>> },
  ): string;
  /** The table that threads need for decoding, in shared memory. */
  readonly bytes: TokenBytes;
}

/** The bytes of every token, over SharedArrayBuffers. Those of id i are `bytes[starts[i]] … bytes[starts[i + 1] - 1]`. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  /** [V + 1] */
  readonly starts: Uint32Array;
  /** 1 for control tokens, whose text may be skipped. [V] */
  readonly special: Uint8Array;
}
