import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';

type Json = Record<string, unknown>;

const folder = temporaryFolder();
afterAll(() => folder.remove());
let count = 0;

/** A tokenizer of Gemma 3's kind with a few words, as transformers writes it: spaces are U+2581, bytes without a token are `<0x..>`, BOS comes first. */
function gemmaLike(): Json & { model: Json } {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
  const pieces = ['▁', 'w', 'h', 'o', '<', '/', '>', '\n', 'é', 'wh', 'who', '▁who', '▁▁', '\n\n'];
  const spellings = ['<pad>', '<eos>', '<bos>', '<unk>', ...bytes, ...pieces];
  const added = ['<pad>', '<eos>', '<bos>', '<unk>', '▁▁', '\n\n'];
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const replace = (from: string, content: string) => ({ type: 'Replace', pattern: { String: from }, content });
  return {
    version: '1.0',
    added_tokens: added.map((content) => ({ id: spellings.indexOf(content), content, ...flags, special: spellings.indexOf(content) < 4 })),
    normalizer: replace(' ', '▁'),
    pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false },
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<bos>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [],
      special_tokens: { '<bos>': { id: '<bos>', ids: [2], tokens: ['<bos>'] } },
    },
    decoder: { type: 'Sequence', decoders: [replace('▁', ' '), { type: 'ByteFallback' }, { type: 'Fuse' }] },
    model: {
      type: 'BPE',
      unk_token: '<unk>',
      fuse_unk: true,
      byte_fallback: true,
      vocab: Object.fromEntries(spellings.map((spelling, id) => [spelling, id])),
      merges: [
        ['w', 'h'],
        ['wh', 'o'],
        ['▁', 'who'],
      ],
    },
  };
}

function directoryOf(json: Json): string {
  const directory = join(folder.path, `t${count++}`);
  mkdirSync(directory);
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify(json));
  return directory;
}

const keep = { skipSpecialTokens: false };
const json = gemmaLike();
const directory = directoryOf(json);
const tokenizer = await openTokenizer(directory);
const spelled = (ids: Iterable<number>) => [...ids].map((id) => tokenizer.spelling(id));

describe('openTokenizer of a vocabulary with byte fallback', () => {
  it('writes spaces as U+2581, unknown characters as bytes, and BOS first', () => {
    const ids = tokenizer.encode('who who\n\n🙂', { addSpecialTokens: true });
    expect(spelled(ids)).toEqual(['<bos>', 'who', '▁who', '\n\n', '<0xF0>', '<0x9F>', '<0x99>', '<0x82>']);
    expect(tokenizer.decode(ids, keep)).toBe('<bos>who who\n\n🙂');
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe('who who\n\n🙂');
  });

  it('has the bytes of every token', () => {
    const bytesOf = (id: number) => [...tokenizer.bytes.bytes.subarray(tokenizer.bytes.starts[id], tokenizer.bytes.starts[id + 1])];
    expect(bytesOf(4 + 0x0a)).toEqual([0x0a]);
    expect(bytesOf(4 + 0xff)).toEqual([0xff]);
    expect(Buffer.from(bytesOf(tokenizer.encode(' who', { addSpecialTokens: false })[0]!)).toString()).toBe(' who');
  });

  it('gives back any text without U+2581', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        fc.pre(!text.includes('▁'));
        expect(tokenizer.decode(tokenizer.encode(text, { addSpecialTokens: false }), keep)).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it('gives the library’s text for any ids', () => {
    const library = new Tokenizer(json, {});
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 273 }), { minLength: 1, maxLength: 20 }), (ids) => {
        const expected = library.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
        // The library writes one U+FFFD for each byte of a broken character, where transformers writes one for the whole.
        fc.pre(!expected.includes('\ufffd'));
        expect(tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens: true })).toBe(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('lets no text of an environment become a control token', async () => {
    const chat = await openLocalTokenizer(directory);
    const { ids, neutralised } = await chat.encode('who<eos> who');
    expect({ neutralised, text: await chat.decode(ids), hasEnd: ids.includes(1) }).toEqual({ neutralised: 1, text: 'who<eos> who', hasEnd: false });
    const rendered = await chat.render([{ role: 'user', content: 'who' }], { format: 'continuation' });
    expect(spelled(rendered.ids)).toEqual(['<bos>', 'who']);
  });

  it('knows no token that ends a turn where there is neither a chat template nor ChatML', async () => {
    const chat = await openLocalTokenizer(directory);
    expect([await chat.chatTemplate(), await chat.closingToken()]).toEqual([null, null]);
  });

  it.each<[string, (changed: Json & { model: Json }) => unknown, RegExp]>([
    ['a space before the text', (changed) => (changed['normalizer'] = { type: 'Prepend', prepend: '▁' }), /normalizer .* must be Replace/],
    ['words', (changed) => (changed['pre_tokenizer'] = { type: 'Whitespace' }), /pre_tokenizer .* null or a Split at " ", got .*Whitespace/],
    ['a decoder that strips', (changed) => (changed['decoder'] = { type: 'Metaspace' }), /decoder .* ByteFallback, Fuse, got/],
    ['a missing byte', (changed) => delete (changed.model['vocab'] as Json)['<0x41>'], /model\.vocab .* complete, got .*<0x41>/],
  ])('refuses %s by name, as unsupported', async (_, edit, message) => {
    const changed = gemmaLike();
    edit(changed);
    await expect(openTokenizer(directoryOf(changed))).rejects.toMatchObject({ code: 'unsupported', message: expect.stringMatching(message) });
  });
});
