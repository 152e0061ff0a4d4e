/** The tokenizer of a Hugging Face directory. The library encodes; decoding uses the byte table, so that it is the same here and in the engine's threads. */
import { Tokenizer } from '@huggingface/tokenizers';
import { thrownText } from '../core/errors.ts';
import type { ByteSource } from '../files/byte-source.ts';
import type { JsonObject } from '../files/source-text.ts';
import { type ChatOptions, ChatTemplate } from './chat-template.ts';
import { tokenBytes } from './token-bytes.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { readTokenizerFiles, type TokenizerFiles } from './tokenizer-files.ts';
import type { ModelTokenizer, TokenBytes } from './tokenizer-types.ts';

/** Words, digits, punctuation, line feeds and multi-byte characters. */
const PROBE = "It's a probe, 12: naïve 東京 🙂\n\n";

/** Keeps a byte order mark, which may be a token's text. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });

export interface OpenTokenizerOptions {
  /** Number of the model's logits; larger ids are an error. @default the tokenizer's own size */
  readonly vocabularySize?: number;
  /** A Jinja template that replaces the directory's own. @default the directory's own, if any */
  readonly chatTemplate?: string;
}

/** Rejects with TokenizerError if the directory has no tokenizer, one of another kind, or one with ids that the model does not have. */
export async function readTokenizer(source: ByteSource, { vocabularySize, chatTemplate }: OpenTokenizerOptions = {}): Promise<ModelTokenizer> {
  const { path: directory } = source;
  const files = await readTokenizerFiles(source);
  const spellings = spellingsOf(files, { directory, vocabularySize: vocabularySize ?? sizeOf(files) });
  const template = chatTemplate === undefined ? await ChatTemplate.read(source, files.settings) : ChatTemplate.of(chatTemplate, files.settings);
  try {
    // No settings: those that the library knows would change the text, and transformers ignores them for such a tokenizer.
    const tokenizer = new LibraryTokenizer({ library: new Tokenizer(files.tokenizer, {}), spellings, files, template });
    // A broken tokenizer fails here, not during a request.
    tokenizer.encode(PROBE, { addSpecialTokens: true });
    return tokenizer;
  } catch (cause) {
    throw new TokenizerError(`The tokenizer in ${directory} cannot be read: ${thrownText(cause)}. Save it again.`, { cause });
  }
}

/** The spelling of each id, one entry per logit of the model. */
function spellingsOf(
  { vocabulary, addedTokens }: TokenizerFiles,
  { vocabularySize, directory }: { readonly vocabularySize: number; readonly directory: string },
): readonly (string | undefined)[] {
  const spellings = Array.from<string | undefined>({ length: vocabularySize });
  const put = (spelling: string, id: number) => {
    if (id < vocabularySize) spellings[id] = spelling;
    else {
      throw new TokenizerError(
        `The tokenizer does not fit the model in ${directory}: token ${spelling} has id ${id}, but the model has only ${vocabularySize} tokens. Use the tokenizer that belongs to the model.`,
      );
    }
  };
  for (const spelling in vocabulary) put(spelling, vocabulary[spelling]!);
  for (const { content, id } of addedTokens) put(content, id);
  return spellings;
}

function sizeOf({ vocabulary, addedTokens }: TokenizerFiles): number {
  let largest = -1;
  for (const spelling in vocabulary) largest = Math.max(largest, vocabulary[spelling]!);
  for (const { id } of addedTokens) largest = Math.max(largest, id);
  return largest + 1;
}

class LibraryTokenizer implements ModelTokenizer {
  readonly vocabularySize: number;
  readonly hasChatTemplate: boolean;
  readonly bytes: TokenBytes;
  readonly #library: Tokenizer;
  readonly #spellings: readonly (string | undefined)[];
  readonly #template: ChatTemplate | null;

  constructor(parts: {
    readonly library: Tokenizer;
    readonly spellings: readonly (string | undefined)[];
    readonly files: TokenizerFiles;
    readonly template: ChatTemplate | null;
  }) {
    this.#library = parts.library;
    this.#spellings = parts.spellings;
    this.#template = parts.template;
    this.vocabularySize = parts.spellings.length;
    this.hasChatTemplate = parts.template !== null;
    const special = parts.files.addedTokens.filter((token) => token.special).map((token) => token.id);
    this.bytes = tokenBytes(parts.spellings, special, parts.files.spelling);
  }

  encode(text: string, { addSpecialTokens }: { readonly addSpecialTokens: boolean }): Int32Array {
    return Int32Array.from(this.#library.encode(text, { add_special_tokens: addSpecialTokens }).ids);
  }

  decode(ids: Int32Array, { skipSpecialTokens }: { readonly skipSpecialTokens: boolean }): string {
    const { bytes, starts, special } = this.bytes;
    const parts: Uint8Array[] = [];
    for (const id of ids) {
      if (!(skipSpecialTokens && special[id] === 1)) parts.push(bytes.subarray(starts[id] ?? 0, starts[id + 1] ?? 0));
    }
    return UTF8.decode(joined(parts));
  }

  spelling(id: number): string | null {
    return this.#spellings[id] ?? null;
  }

  isSpecial(id: number): boolean {
    return this.bytes.special[id] === 1;
  }

  renderChat(messages: readonly JsonObject[], options: ChatOptions): string {
    if (this.#template === null) {
      throw new TokenizerError('The model has no chat template. Send a prompt instead of messages.', { param: 'messages' });
    }
    return this.#template.render(messages, options);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
