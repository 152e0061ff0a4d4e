import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { TokenizerError } from '../../src/tokenizer/tokenizer-error.ts';
import { IncrementalText } from '../../src/tokenizer/incremental-text.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import { readModelConfig } from '../engine/from-directory.ts';

interface Golden {
  readonly texts: readonly string[];
  readonly models: readonly {
    readonly path: string;
    readonly encoded: readonly (readonly number[])[];
    readonly decoded: readonly { readonly ids: readonly number[]; readonly skipped: string; readonly kept: string }[];
    readonly spellings: readonly string[];
  }[];
}

const root = join(import.meta.dirname, '../..');
const golden = JSON.parse(readFileSync(join(root, 'test/golden/engine/tokenizer.json'), 'utf8')) as Golden;
const folder = temporaryFolder();
afterAll(() => folder.remove());
const open = async (path: string) => await openTokenizer(path, await readModelConfig(path));
const nano = join(root, 'test/models/nano-base');
const tokenizer = await open(nano);
const keep = { skipSpecialTokens: false };

describe.each(golden.models)('openTokenizer of $path', ({ path, encoded, decoded, spellings }) => {
  it('encodes awkward strings as transformers does, and decodes them to what they were', async () => {
    const ours = await open(join(root, path));
    for (const [i, text] of golden.texts.entries()) {
      const ids = ours.encode(text, { addSpecialTokens: true });
      expect({ text, ids: [...ids] }).toEqual({ text, ids: encoded[i] });
      expect(ours.decode(ids, keep)).toBe(text);
    }
  });

  it('decodes ids as transformers does, broken characters among them', async () => {
    const ours = await open(join(root, path));
    expect(decoded.some(({ kept }) => kept.includes('\ufffd'))).toBe(true);
    expect(decoded.some(({ kept, skipped }) => kept !== skipped)).toBe(true);
    for (const { ids, kept, skipped } of decoded) {
      expect({ ids, text: ours.decode(Int32Array.from(ids), keep) }).toEqual({ ids, text: kept });
      expect({ ids, text: ours.decode(Int32Array.from(ids), { skipSpecialTokens: true }) }).toEqual({ ids, text: skipped });
    }
  });

  it('spells tokens as the vocabulary does', async () => {
    const ours = await open(join(root, path));
    expect(spellings.map((_, i) => ours.spelling(7 * i))).toEqual(spellings);
  });
});

describe('openTokenizer', () => {
  it('cuts texts where the ids of what follows stay the same, at the last control token before a place', () => {
    const piece = fc.oneof(
      fc.constantFrom('<|im_start|>', '<|im_end|>', '<think>', '</think>', '<|im_', '<', ' ', '\n', "'s"),
      fc.string({ maxLength: 5 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.nat(), (pieces, nat) => {
        const text = pieces.join('');
        const at = nat % (text.length + 1);
        const cut = tokenizer.cutBefore(text, at);
        const [whole, rest] = [text, text.slice(cut)].map((each) => [...tokenizer.encode(each, { addSpecialTokens: false })]);
        expect(cut).toBe(Math.max(0, ...['<|im_start|>', '<|im_end|>', '<|endoftext|>'].map((token) => text.lastIndexOf(token, at))));
        expect(whole!.slice(whole!.length - rest!.length)).toEqual(rest);
      }),
    );
    expect(tokenizer.cutBefore(`<|im_start|>${'<'.repeat(1000)}`, 1000)).toBe(0);
  });

  it('gives the library’s text for any ids, all at once or one at a time', () => {
    const library = new Tokenizer(JSON.parse(readFileSync(join(nano, 'tokenizer.json'), 'utf8')) as object, {});
    const id = fc.oneof(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 0, max: 1547 }), fc.integer({ min: 1537, max: 1547 }));
    fc.assert(
      fc.property(fc.array(id, { minLength: 1, maxLength: 20 }), fc.boolean(), (ids, skipSpecialTokens) => {
        const expected = library.decode(ids, { skip_special_tokens: skipSpecialTokens, clean_up_tokenization_spaces: false });
        expect(tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens })).toBe(expected);
        const text = new IncrementalText(tokenizer.bytes, { skipSpecialTokens });
        const pieces = ids.map((one) => text.push(one)).join('');
        expect(expected.endsWith('\uFFFD') ? expected.slice(0, pieces.length) : expected).toBe(pieces);
      }),
      { numRuns: 300 },
    );
  });

  it('gives the library’s ids for any text', () => {
    const library = new Tokenizer(JSON.parse(readFileSync(join(nano, 'tokenizer.json'), 'utf8')) as object, {});
    const piece = fc.oneof(
      fc.string(),
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(' the heron', '\u007F', '\t', '  two', 'naïve é', '<|im_end|>'),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        expect([...tokenizer.encode(text, { addSpecialTokens: false })]).toEqual(library.encode(text, { add_special_tokens: false }).ids);
      }),
      { numRuns: 500 },
    );
  });

  it('gives back any text that it encoded', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text, { addSpecialTokens: false }), keep)).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it('has no text for no ids, and none for ids beyond the vocabulary', () => {
    expect(tokenizer.encode('', { addSpecialTokens: true })).toEqual(new Int32Array(0));
    expect(tokenizer.decode(new Int32Array(0), keep)).toBe('');
    expect(tokenizer.vocabularySize).toBe(1600);
    expect(tokenizer.spelling(1599)).toBeNull();
    expect(tokenizer.decode(Int32Array.of(1599, 1600, -1), keep)).toBe('');
  });

  it('distinguishes control tokens from other added ones', () => {
    expect([1537, 1539, 1543, 0, 5000].map((id) => tokenizer.isSpecial(id))).toEqual([true, true, false, false, false]);
  });

  it('keeps its table of bytes where threads can read it', () => {
    for (const part of [tokenizer.bytes.bytes, tokenizer.bytes.starts, tokenizer.bytes.special])
      expect(part.buffer).toBeInstanceOf(SharedArrayBuffer);
  });
});

type Json = Record<string, unknown>;
let count = 0;

/** The nano tokenizer with changes, next to the nano's configuration. */
async function changed(edit: (tokenizer: Json & { model: Json; added_tokens: Json[] }) => unknown, settings: Json = {}) {
  const directory = join(folder.path, `t${count++}`);
  mkdirSync(directory);
  copyFileSync(join(nano, 'config.json'), join(directory, 'config.json'));
  const json = JSON.parse(readFileSync(join(nano, 'tokenizer.json'), 'utf8')) as Json & { model: Json; added_tokens: Json[] };
  edit(json);
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify(json));
  writeFileSync(join(directory, 'tokenizer_config.json'), JSON.stringify(settings));
  return await open(directory);
}

describe('openTokenizer, of another tokenizer', () => {
  it.each<[string, (json: Json & { model: Json }) => unknown, RegExp]>([
    [
      'another model',
      (json) => (json.model['type'] = 'Unigram'),
      /^model\.type in .*tokenizer\.json must be "BPE", got "Unigram"\. .*vLLM for others\.$/,
    ],
    ['byte fallback with words cut off first', (json) => (json.model['byte_fallback'] = true), /normalizer .* Replace " " by "▁"/],
    ['random merges', (json) => (json.model['dropout'] = 0.1), /model\.dropout .* null, got 0\.1/],
    [
      'a token that only matches whole words',
      (json) => Object.assign((json['added_tokens'] as Json[])[2]!, { single_word: true }),
      /single_word of the added token .* must be false, got true/,
    ],
    ['no bytes before', (json) => (json['pre_tokenizer'] = { type: 'Metaspace' }), /pre_tokenizer .* ByteLevel, or a sequence with it/],
    ['no bytes after', (json) => (json['decoder'] = null), /decoder .* ByteLevel, got null/],
    [
      'another way to split',
      (json) =>
        (json['pre_tokenizer'] = {
          type: 'Sequence',
          pretokenizers: [{ type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithNext' }, { type: 'ByteLevel' }],
        }),
      /behavior of a Split .*, got "MergedWithNext"/,
    ],
  ])('refuses %s by name, as unsupported', async (_, edit, message) => {
    await expect(changed(edit)).rejects.toMatchObject({ code: 'unsupported', message: expect.stringMatching(message) });
  });

  it.each<[string, (json: Json & { model: Json; added_tokens: Json[] }) => unknown, RegExp]>([
    ['no vocabulary', (json) => (json.model['vocab'] = {}), /model in .* must have a table vocab .* and a list merges/],
    ['a vocabulary of words', (json) => (json.model['vocab'] = { a: 'b' }), /model in .* must have a table vocab .* and a list merges/],
    [
      'an added token without an id',
      (json) => json.added_tokens.push({ content: 'x', special: true }),
      /added_tokens in .* list of \{ id, content, special \}/,
    ],
    [
      'more tokens than the model has',
      (json) => json.added_tokens.push({ id: 1600, content: '<x>', special: true }),
      /token <x> has id 1600, but the model has only 1600 tokens/,
    ],
  ])('refuses %s as invalid', async (_, edit, message) => {
    await expect(changed(edit)).rejects.toMatchObject({ code: 'invalid', message: expect.stringMatching(message) });
  });

  it('knows the tokens that only tokenizer_config.json adds', async () => {
    const decoder = { 1550: { content: '<tool>', special: true }, 1539: { content: '<|im_end|>', special: true } };
    const ours = await changed(() => {}, { added_tokens_decoder: decoder, eos_token: { content: 'a' } });
    expect([...ours.encode('<tool>', { addSpecialTokens: true })]).toEqual([1550]);
    expect([ours.isSpecial(1550), ours.decode(Int32Array.of(1550), keep)]).toEqual([true, '<tool>']);
    // A letter of the vocabulary that is declared a control token is one.
    expect(ours.isSpecial(ours.encode('a', { addSpecialTokens: true })[0]!)).toBe(true);
  });

  it('says where a tokenizer is missing or broken', async () => {
    const directory = join(folder.path, 'none');
    mkdirSync(directory);
    copyFileSync(join(nano, 'config.json'), join(directory, 'config.json'));
    await expect(open(directory)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('tokenizer.json does not exist; a model directory holds'),
    });
    writeFileSync(join(directory, 'tokenizer.json'), '{"model":');
    await expect(open(directory)).rejects.toBeInstanceOf(TokenizerError);
    await expect(open(directory)).rejects.toThrow(/tokenizer\.json is not JSON;/);
  });

  it('has no chat template where none is given', async () => {
    expect(tokenizer.hasChatTemplate).toBe(false);
    const options = { addGenerationPrompt: true, continueFinalMessage: false, variables: {} };
    expect(() => tokenizer.renderChat([], options)).toThrow(/^The model has no chat template\. Send a prompt instead of messages\.$/);
    const ours = await changed(() => {}, { chat_template: '{{ messages[0].content }}{{ eos_token }}', eos_token: '<|im_end|>' });
    expect(ours.hasChatTemplate).toBe(true);
    expect(ours.renderChat([{ role: 'user', content: 'hi' }], options)).toBe('hi<|im_end|>');
  });
});
