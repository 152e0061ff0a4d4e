/** The tokenizer of a Hugging Face directory. The library encodes; decoding uses the byte table, so that it is the same here and in the engine's threads. */
import { Tokenizer } from '@huggingface/tokenizers';
import { countText } from '../core/count-text.ts';
import { libraryText } from '../core/errors.ts';
import type { ByteSource } from '../files/byte-source.ts';
import type { JsonObject } from '../files/source-text.ts';
import { spellAsciiAtOnce } from './ascii-words.ts';
import { type ChatOptions, ChatTemplate } from './chat-template.ts';
import { isRiskyPattern, patternsIn } from './pattern-risk.ts';
import { TimeExceeded, type WithinTime } from './time-limit.ts';
import { tokenBytes } from './token-bytes.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { readTokenizerFiles, type TokenizerFiles } from './tokenizer-files.ts';
import type { ModelTokenizer, TokenBytes } from './tokenizer-types.ts';

/** Words, digits, punctuation, line feeds and multi-byte characters. */
const PROBE = "It's a probe, 12: naïve 東京 🙂\n\n";

/** The time that a text may take to be divided; some 20 times that of a slow machine. */
const LEAST_LIMIT_MS = 5000;
const MS_PER_CHARACTER = 0.1;
/** In UTF-16 units. A pattern that takes the cube of it ends within seconds, and keeping the time costs more than the text itself. */
const SHORT_TEXT = 1000;

/** The patterns of Qwen and Llama 3: each takes a time in proportion to the text's length, so nobody need keep it. */
const LINEAR_PATTERNS: ReadonlySet<string> = new Set(
  ['', '{1,3}'].map(
    (digits) => String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ),
);

/** Places that are tried for a cut. */
const MOST_CUTS = 16;

/** Some 60 times the largest known vocabulary. */
const MOST_TOKENS = 2 ** 24;

/** Keeps a byte order mark, which may be a token's text. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });

export interface OpenTokenizerOptions {
  /** Number of the model's logits; larger ids are an error. @default the tokenizer's own size */
  readonly vocabularySize?: number;
  /** A Jinja template that replaces the directory's own. @default the directory's own, if any */
  readonly chatTemplate?: string;
  /** Ends the search for a pattern that takes too long. @default it goes on */
  readonly withinTime?: WithinTime;
}

/** Rejects with TokenizerError if the directory has no tokenizer, one of another kind, or one with ids that the model does not have. */
export async function readTokenizer(
  source: ByteSource,
  { vocabularySize, chatTemplate, withinTime }: OpenTokenizerOptions = {},
): Promise<ModelTokenizer> {
  const { path: directory } = source;
  const files = await readTokenizerFiles(source);
  const spellings = spellingsOf(files, { directory, vocabularySize: vocabularySize ?? sizeOf(files, source.pathOf('tokenizer.json')) });
  const template = chatTemplate === undefined ? await ChatTemplate.read(source, files.settings) : ChatTemplate.of(chatTemplate, files.settings);
  try {
    // No settings: those that the library knows would change the text, and transformers ignores them for such a tokenizer.
    const library = new Tokenizer(files.tokenizer, {});
    spellAsciiAtOnce(library.pre_tokenizer);
    const tokenizer = new LibraryTokenizer({ library, spellings, files, template, withinTime, directory });
    // A broken tokenizer fails here, not during a request.
    tokenizer.encode(PROBE, { addSpecialTokens: true });
    return tokenizer;
  } catch (cause) {
    if (cause instanceof TokenizerError) throw cause;
    throw new TokenizerError(`The tokenizer in ${directory} cannot be read: ${libraryText(cause)}. Save it again.`, { cause });
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

/** Throws TokenizerError for an id of which no vocabulary has so many, because room is made for every smaller one. */
function sizeOf({ vocabulary, addedTokens }: TokenizerFiles, path: string): number {
  let largest = -1;
  const see = (spelling: string, id: number) => {
    if (id >= MOST_TOKENS)
      throw new TokenizerError(
        `The token ${spelling} of ${path} has id ${id}; a tokenizer has at most ${countText(MOST_TOKENS)} tokens. Save it again.`,
      );
    largest = Math.max(largest, id);
  };
  for (const spelling in vocabulary) see(spelling, vocabulary[spelling]!);
  for (const { content, id } of addedTokens) see(content, id);
  return largest + 1;
}

class LibraryTokenizer implements ModelTokenizer {
  readonly vocabularySize: number;
  readonly hasChatTemplate: boolean;
  readonly bytes: TokenBytes;
  readonly #library: Tokenizer;
  readonly #spellings: readonly (string | undefined)[];
  readonly #template: ChatTemplate | null;
  readonly #withinTime: WithinTime | undefined;
  readonly #directory: string;
  /** The longest text that its patterns divide soon enough: its cube at most is taken, or a time in proportion to it. */
  readonly #untimedLength: number;
  readonly #cuts: readonly string[];

  constructor(parts: {
    readonly library: Tokenizer;
    readonly spellings: readonly (string | undefined)[];
    readonly files: TokenizerFiles;
    readonly template: ChatTemplate | null;
    readonly withinTime: WithinTime | undefined;
    readonly directory: string;
  }) {
    this.#library = parts.library;
    this.#spellings = parts.spellings;
    this.#template = parts.template;
    this.#withinTime = parts.withinTime;
    this.#directory = parts.directory;
    this.#untimedLength = untimedLength(patternsIn(parts.files.tokenizer));
    this.#cuts = cutsOf(parts.files.addedTokens);
    this.vocabularySize = parts.spellings.length;
    this.hasChatTemplate = parts.template !== null;
    const special = parts.files.addedTokens.filter((token) => token.special).map((token) => token.id);
    this.bytes = tokenBytes(parts.spellings, special, parts.files.spelling);
  }

  encode(text: string, { addSpecialTokens }: { readonly addSpecialTokens: boolean }): Int32Array {
    const encode = () => this.#library.encode(text, { add_special_tokens: addSpecialTokens }).ids;
    if (this.#withinTime === undefined || text.length <= this.#untimedLength) return Int32Array.from(encode());
    const limitMs = LEAST_LIMIT_MS + Math.ceil(text.length * MS_PER_CHARACTER);
    try {
      return Int32Array.from(this.#withinTime(limitMs, encode));
    } catch (cause) {
      if (!(cause instanceof TimeExceeded)) throw cause;
      throw new TokenizerError(
        `The tokenizer in ${this.#directory} took more than ${limitMs / 1000} s to divide a text of ${countText(text.length)} characters, so its pattern may never end. Use the tokenizer of a model that you trust.`,
        { cause },
      );
    }
  }

  cutBefore(text: string, at: number): number {
    const firsts = [...new Set(this.#cuts.map((cut) => cut[0]!))];
    let place = at + 1;
    for (let tries = 0; tries < MOST_CUTS && place > 0; tries++) {
      place = Math.max(0, ...firsts.map((first) => text.lastIndexOf(first, place - 1)));
      if (this.#cuts.some((cut) => text.startsWith(cut, place))) return place;
    }
    return 0;
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

/** -1: every text is timed. */
function untimedLength(patterns: readonly string[]): number {
  if (patterns.every((pattern) => LINEAR_PATTERNS.has(pattern))) return Infinity;
  return patterns.some((pattern) => isRiskyPattern(pattern)) ? -1 : SHORT_TEXT;
}

/**
 * Control tokens that divide every text in which they are spelled: what stands before one has no influence on the ids of what follows, and no other added token can reach over its
 * beginning, because none has its first character inside.
 */
function cutsOf(addedTokens: TokenizerFiles['addedTokens']): readonly string[] {
  const inside = new Set(addedTokens.flatMap(({ content }) => content.slice(1).split('')));
  return addedTokens
    .filter(({ content, special, normalized = false }) => special && normalized === false && !inside.has(content[0]!))
    .map(({ content }) => content);
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
