/** Text to tokens and back, as the model's tokenizer.json says. Byte-level BPE only, as Qwen and Llama 3 models have. */

export interface ModelTokenizer {
  readonly vocabularySize: number;
  /** tokenizer_config.json (or chat_template.jinja) has a chat template. */
  readonly hasChatTemplate: boolean;
  /** Whether special tokens in the text become control tokens is the tokenizer's usual: they do, as in vLLM. */
  encode(text: string, options: { readonly addSpecialTokens: boolean }): Int32Array;
  decode(ids: Int32Array, options: { readonly skipSpecialTokens: boolean }): string;
  /** The vocabulary's own spelling of a token (`Ġthe`); null where the id has none. */
  spelling(id: number): string | null;
  isSpecial(id: number): boolean;
  /** The text of the prompt. Throws TokenizerError where there is no template or it refuses. */
  renderChat(
    messages: readonly Readonly<Record<string, unknown>>[],
    options: { readonly addGenerationPrompt: boolean; readonly continueFinalMessage: boolean; readonly variables: Readonly<Record<string, unknown>> },
  ): string;
  /** What the threads need to turn ids into text, in shared memory. */
  readonly bytes: TokenBytes;
}

/** The bytes of every token: those of id i are `bytes[starts[i]] … bytes[starts[i + 1] - 1]`. Plain data over SharedArrayBuffers. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  /** [V + 1] */
  readonly starts: Uint32Array;
  /** 1: a control token, without text where those are skipped. [V] */
  readonly special: Uint8Array;
}
