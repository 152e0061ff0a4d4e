/**
 * Reads and checks tokenizer.json and tokenizer_config.json. Rejects, by name, settings that the tokenizer library would encode differently from transformers, and
 * everything but the two kinds of BPE whose tokens have known bytes, because sampled tokens are decoded by their bytes.
 */
import type { ByteSource } from '../files/byte-source.ts';
import { type JsonObject, readSourceJson, readSourceJsonIfPresent, shownJson as shown } from '../files/source-text.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { isObject } from '../schemas/is-object.ts';

/** A Qwen3 tokenizer.json has 11 MB. */
const MAX_BYTES = 2 ** 28;
const REMEDY = 'Only byte-level BPE, as in Qwen models, and BPE with byte fallback, as in Gemma 3, are supported here; use vLLM for others.';
/** SentencePiece's mark for a space. */
const SPACE = '\u2581';
const makeError = (message: string, options: { code: 'not_found' | 'invalid'; cause?: unknown }) => new TokenizerError(message, options);

type Vocabulary = Readonly<Record<string, number>>;

/**
 * The way a token spells its bytes.
 * - `byte-level`: one character of GPT-2's alphabet per byte
 * - `byte-fallback`: as text with U+2581 for a space; `<0x0A>` is a single byte
 */
export type TokenSpelling = 'byte-level' | 'byte-fallback';

interface AddedToken extends JsonObject {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

export interface TokenizerFiles {
  /** tokenizer.json, with those `added_tokens` that are only in tokenizer_config.json, as in transformers. */
  readonly tokenizer: JsonObject;
  /** Ids by spelling, without added tokens. The object from the file, not a copy: it may have 150,000 entries. */
  readonly vocabulary: Vocabulary;
  readonly spelling: TokenSpelling;
  readonly addedTokens: readonly AddedToken[];
  /** tokenizer_config.json; empty if there is none. */
  readonly settings: JsonObject;
}

/** Rejects with TokenizerError: `not_found`, `unsupported`, or `invalid` for a broken file. */
export async function readTokenizerFiles(source: ByteSource): Promise<TokenizerFiles> {
  const path = source.pathOf('tokenizer.json');
  const remedy = 'a model directory holds tokenizer.json; save the tokenizer with save_pretrained';
  const json = await readSourceJson(source, 'tokenizer.json', { maxBytes: MAX_BYTES, remedy, makeError });
  const settings = (await readSourceJsonIfPresent(source, 'tokenizer_config.json', { maxBytes: MAX_BYTES, remedy, makeError })) ?? {};
  const { vocabulary, spelling } = checkModel(path, json['model']);
  if (spelling === 'byte-level') checkByteLevel(path, json);
  else checkByteFallback(path, json, vocabulary);
  const addedTokens = completed(readAddedTokens(path, json['added_tokens'] ?? []), vocabulary, settings);
  const tokenizer = { ...json, added_tokens: addedTokens };
  return { tokenizer, vocabulary, spelling, addedTokens, settings };
}

function refuse(path: string, field: string, expected: string, value: unknown): never {
  throw new TokenizerError(`${field} in ${path} must be ${expected}, got ${shown(value)}. ${REMEDY}`, { code: 'unsupported' });
}

function checkModel(path: string, model: unknown): Pick<TokenizerFiles, 'vocabulary' | 'spelling'> {
  if (!isObject(model)) throw new TokenizerError(`model in ${path} must be an object, got ${shown(model)}. Save the tokenizer again.`);
  const { type, vocab, merges } = model;
  if (type !== 'BPE') refuse(path, 'model.type', '"BPE"', type);
  for (const key of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix']) {
    if ((model[key] ?? '') !== '') refuse(path, `model.${key}`, 'null', model[key]);
  }
  const spelling = model['byte_fallback'] === true ? 'byte-fallback' : 'byte-level';
  if (isVocabulary(vocab) && Array.isArray(merges) && merges.every(isMerge)) return { vocabulary: vocab, spelling };
  throw new TokenizerError(`model in ${path} must have a table vocab from tokens to ids and a list merges. Save the tokenizer again.`);
}

/** `a b`, or in newer files `["a", "b"]`. */
function isMerge(merge: unknown): boolean {
  return typeof merge === 'string' || (Array.isArray(merge) && merge.length === 2 && merge.every((part) => typeof part === 'string'));
}

function isVocabulary(value: unknown): value is Vocabulary {
  if (!isObject(value)) return false;
  let count = 0;
  for (const spelling in value) {
    if (!isId(value[spelling])) return false;
    count++;
  }
  return count > 0;
}

/** The pre-tokenizer must produce bytes, and the decoder read them. The library supports only two of the behaviors of Split. */
function checkByteLevel(path: string, { pre_tokenizer: preTokenizer, decoder }: JsonObject): void {
  const steps = stepsOf(preTokenizer, 'pretokenizers');
  if (!steps.some((step) => step['type'] === 'ByteLevel')) refuse(path, 'pre_tokenizer', 'ByteLevel, or a sequence with it', preTokenizer);
  const split = steps.find((step) => step['type'] === 'Split' && !['Isolated', 'Removed'].includes(String(step['behavior'])));
  if (split !== undefined) refuse(path, 'the behavior of a Split in pre_tokenizer', '"Isolated" or "Removed"', split['behavior']);
  if (!stepsOf(decoder, 'decoders').some((step) => step['type'] === 'ByteLevel')) refuse(path, 'decoder', 'ByteLevel', decoder);
}

/** Every space becomes U+2581 and nothing is added (Llama 2 adds a space before the text), so that a text's pieces have the bytes of their places in it. */
function checkByteFallback(path: string, { normalizer, pre_tokenizer: preTokenizer, decoder }: JsonObject, vocabulary: Vocabulary): void {
  const replaces = (step: JsonObject | undefined, from: string, to: string) =>
    step?.['type'] === 'Replace' && isObject(step['pattern']) && step['pattern']['String'] === from && step['content'] === to;
  const [space, ...others] = stepsOf(normalizer, 'normalizers');
  if (!replaces(space, ' ', SPACE) || others.length > 0) refuse(path, 'normalizer', `Replace " " by "${SPACE}"`, normalizer);
  // After the normaliser there is no space left at which a Split could divide.
  const splits = stepsOf(preTokenizer, 'pretokenizers');
  if (splits.some((step) => step['type'] !== 'Split' || !isObject(step['pattern']) || step['pattern']['String'] !== ' '))
    refuse(path, 'pre_tokenizer', 'null or a Split at " "', preTokenizer);
  const [back, ...bytes] = stepsOf(decoder, 'decoders');
  if (!replaces(back, SPACE, ' ') || bytes.map((step) => step['type']).join() !== 'ByteFallback,Fuse')
    refuse(path, 'decoder', `Replace "${SPACE}" by " ", ByteFallback, Fuse`, decoder);
  const missing = Array.from({ length: 256 }, (_, byte) => byteToken(byte)).find((token) => !Object.hasOwn(vocabulary, token));
  if (missing !== undefined) refuse(path, 'model.vocab', 'complete', `a vocabulary without ${missing}`);
}

/** The token of one byte in a vocabulary with byte fallback: `<0x0A>`. */
function byteToken(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}

/** The steps of a Sequence in tokenizer.json, or the one step. */
function stepsOf(step: unknown, key: string): readonly JsonObject[] {
  if (!isObject(step)) return [];
  const inner = step[key];
  return step['type'] === 'Sequence' && Array.isArray(inner) ? inner.filter(isObject) : [step];
}

function readAddedTokens(path: string, value: unknown): readonly AddedToken[] {
  if (Array.isArray(value) && value.every(isAddedToken)) {
    const word = value.find((token) => token['single_word'] === true);
    if (word !== undefined) refuse(path, `single_word of the added token ${shown(word.content)}`, 'false', true);
    return value;
  }
  throw new TokenizerError(`added_tokens in ${path} must be a list of { id, content, special }. Save the tokenizer again.`);
}

function isAddedToken(value: unknown): value is AddedToken {
  return (
    isObject(value) && isId(value['id']) && typeof value['content'] === 'string' && value['content'] !== '' && typeof value['special'] === 'boolean'
  );
}

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** Adds the tokens of `added_tokens_decoder`, and the named ones (`eos_token`, …) that are in the vocabulary but not among the added tokens. */
function completed(tokens: readonly AddedToken[], vocabulary: Vocabulary, settings: JsonObject): readonly AddedToken[] {
  const all = new Map(tokens.map((token) => [token.content, token]));
  const decoder = settings['added_tokens_decoder'];
  for (const [id, about] of Object.entries(isObject(decoder) ? decoder : {})) {
    const token = { special: false, ...(isObject(about) ? about : {}), id: Number(id) };
    if (isAddedToken(token) && !all.has(token.content)) all.set(token.content, token);
  }
  for (const content of Object.values(namedTokens(settings))) {
    const id = Object.hasOwn(vocabulary, content) ? vocabulary[content] : undefined;
    if (id !== undefined && !all.has(content)) all.set(content, { id, content, special: true });
  }
  return [...all.values()];
}

/** `bos_token`, `eos_token` and the like, by name, for templates. */
export function namedTokens(settings: JsonObject): Readonly<Record<string, string>> {
  const names = ['bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token'];
  const entries = names.map((name): [string, unknown] => {
    const value = settings[name];
    return [name, isObject(value) ? value['content'] : value];
  });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}
