/**
 * Reads and checks tokenizer.json and tokenizer_config.json. Rejects, by name, what the tokenizer library would encode differently from transformers, and
 * everything but byte-level BPE, because sampled tokens are decoded by their bytes.
 */
import { join } from 'node:path';
import { type JsonObject, readJsonObject, readJsonObjectIfPresent, shownJson as shown } from '../files/json-object.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { isObject } from '../schemas/is-object.ts';

/** A Qwen3 tokenizer.json has 11 MB. */
const MAX_BYTES = 2 ** 28;
const REMEDY = 'Only byte-level BPE, as in Qwen models, is supported here; use vLLM for others.';
const makeError = (message: string, options: { code: 'not_found' | 'invalid'; cause?: unknown }) => new TokenizerError(message, options);

type Vocabulary = Readonly<Record<string, number>>;

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
  readonly addedTokens: readonly AddedToken[];
  /** tokenizer_config.json; empty if there is none. */
  readonly settings: JsonObject;
}

/** Rejects with TokenizerError: `not_found`, `unsupported`, or `invalid` for a broken file. */
export async function readTokenizerFiles(directory: string): Promise<TokenizerFiles> {
  const path = join(directory, 'tokenizer.json');
  const remedy = 'a model directory holds tokenizer.json; save the tokenizer with save_pretrained';
  const json = await readJsonObject(path, { maxBytes: MAX_BYTES, remedy, makeError });
  const settings = (await readJsonObjectIfPresent(join(directory, 'tokenizer_config.json'), { maxBytes: MAX_BYTES, remedy, makeError })) ?? {};
  const vocabulary = checkModel(path, json['model']);
  checkSplitting(path, json['pre_tokenizer']);
  if (!stepsOf(json['decoder'], 'decoders').some((step) => step['type'] === 'ByteLevel')) refuse(path, 'decoder', 'ByteLevel', json['decoder']);
  const addedTokens = completed(readAddedTokens(path, json['added_tokens'] ?? []), vocabulary, settings);
  const tokenizer = { ...json, added_tokens: addedTokens };
  return { tokenizer, vocabulary, addedTokens, settings };
}

function refuse(path: string, field: string, expected: string, value: unknown): never {
  throw new TokenizerError(`${field} in ${path} must be ${expected}, got ${shown(value)}. ${REMEDY}`, { code: 'unsupported' });
}

function checkModel(path: string, model: unknown): Vocabulary {
  if (!isObject(model)) throw new TokenizerError(`model in ${path} must be an object, got ${shown(model)}. Save the tokenizer again.`);
  const { type, vocab, merges } = model;
  if (type !== 'BPE') refuse(path, 'model.type', '"BPE"', type);
  if ((model['byte_fallback'] ?? false) !== false) refuse(path, 'model.byte_fallback', 'false', model['byte_fallback']);
  for (const key of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix']) {
    if ((model[key] ?? '') !== '') refuse(path, `model.${key}`, 'null', model[key]);
  }
  if (isVocabulary(vocab) && Array.isArray(merges)) return vocab;
  throw new TokenizerError(`model in ${path} must have a table vocab from tokens to ids and a list merges. Save the tokenizer again.`);
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

/** The pre-tokenizer must produce bytes. The library supports only two of the behaviors of Split. */
function checkSplitting(path: string, preTokenizer: unknown): void {
  const steps = stepsOf(preTokenizer, 'pretokenizers');
  if (!steps.some((step) => step['type'] === 'ByteLevel')) refuse(path, 'pre_tokenizer', 'ByteLevel, or a sequence with it', preTokenizer);
  const split = steps.find((step) => step['type'] === 'Split' && !['Isolated', 'Removed'].includes(String(step['behavior'])));
  if (split !== undefined) refuse(path, 'the behavior of a Split in pre_tokenizer', '"Isolated" or "Removed"', split['behavior']);
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
