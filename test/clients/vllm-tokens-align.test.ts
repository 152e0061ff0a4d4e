import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { alignTokens } from '../../src/clients/vllm-tokens-align.ts';

const decode = (bytes: readonly number[]) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));

/** A sampled token: bytes, or a special token of that name, which has no text. */
type Token = readonly number[] | string;

/**
 * What vLLM 0.32 answers for these tokens. The text grows only when it does not end in U+FFFD (DecodeStream); a token's own string is '' while
 * a character is unfinished, and the one that finishes it gets all of it (LogprobsProcessor._correct_decoded_token).
 */
function serve(tokens: readonly Token[]): { text: string; strings: string[] } {
  let text = '';
  let pending: number[] = [];
  const strings = tokens.map((token, i) => {
    if (typeof token === 'string') return token;
    pending = [...pending, ...token];
    const grown = decode(pending);
    if (!grown.endsWith('\uFFFD')) {
      text += grown;
      pending = [];
    }
    const alone = decode(token);
    return alone.endsWith('\uFFFD') ? corrected(tokens, i) : alone;
  });
  return { text, strings };
}

function corrected(tokens: readonly Token[], at: number): string {
  const bytesOf = (list: readonly Token[]) => list.flatMap((token) => (typeof token === 'string' ? [...Buffer.from(token)] : token));
  for (let count = 1; count <= Math.min(4, at); count++) {
    const context = tokens.slice(at - count, at);
    const full = decode(bytesOf([...context, tokens[at]!]));
    if (full.endsWith('\uFFFD')) continue;
    let clean = context.length;
    while (clean > 0 && decode(bytesOf([context[clean - 1]!])).endsWith('\uFFFD')) clean--;
    const prefix = decode(bytesOf(context.slice(0, clean)));
    return full.startsWith(prefix) ? full.slice(prefix.length) : full;
  }
  return '';
}

const CHARACTERS = ['a', ' ', '\n', 'é', '€', '漢', '🙂', '<', '>', '|'];

/** Text as UTF-8, cut into tokens of 1 to 4 bytes wherever it falls. */
const splitAnywhere = fc
  .tuple(fc.string({ unit: fc.constantFrom(...CHARACTERS), maxLength: 30 }), fc.infiniteStream(fc.integer({ min: 1, max: 4 })))
  .map(([text, sizes]) => {
    const bytes = [...Buffer.from(text)];
    const tokens: number[][] = [];
    while (bytes.length > 0) tokens.push(bytes.splice(0, sizes.next().value ?? 1));
    return { text, tokens };
  });

/** As vocabularies do it: a token holds whole characters and perhaps the beginning of one more, or a part of one character. */
const splitAsVocabulariesDo = fc
  .array(
    fc.record({
      whole: fc.string({ unit: fc.constantFrom(...CHARACTERS), maxLength: 3 }),
      split: fc.constantFrom('é', '€', '漢', '🙂'),
      joins: fc.boolean(),
    }),
    {
      maxLength: 8,
    },
  )
  .map((parts) => {
    const tokens: number[][] = [];
    for (const { whole, split, joins } of parts) {
      const [first, ...rest] = Buffer.from(split);
      if (joins) tokens.push([...Buffer.from(whole), first!]);
      else tokens.push(...(whole === '' ? [] : [[...Buffer.from(whole)]]), [first!]);
      for (const byte of rest) tokens.push([byte]);
    }
    return { text: parts.map(({ whole, split }) => whole + split).join(''), tokens };
  });

/** Characters of `text` that each token and those before it settle: bytes that wait for more of a character settle none. [T] */
function completeAfter(tokens: readonly Token[], text: string): number[] {
  return tokens.map((_, i) => {
    const soFar = decode(tokens.slice(0, i + 1).flatMap((token) => (typeof token === 'string' ? [] : token)));
    let length = 0;
    while (length < soFar.length && soFar[length] === text[length]) length++;
    return length;
  });
}

describe('alignTokens', () => {
  it('never ends a token later than the text it completes {any text, any split of its bytes}', () => {
    fc.assert(
      fc.property(splitAnywhere, ({ text, tokens }) => {
        const served = serve(tokens);
        const { textEnds, tail, unexplained } = alignTokens(served.text, served.strings, false);
        expect([served.text, tail, unexplained]).toEqual([text, '', 0]);
        const complete = completeAfter(tokens, text);
        expect([...textEnds].every((end, i) => end <= complete[i]!)).toBe(true);
        expect(textEnds.at(-1) ?? 0).toBe(text.length);
      }),
      { numRuns: 200 },
    );
  });

  it('ends each token with the text it completes {characters split as vocabularies do}', () => {
    fc.assert(
      fc.property(splitAsVocabulariesDo, ({ text, tokens }) => {
        const served = serve(tokens);
        const { textEnds } = alignTokens(served.text, served.strings, false);
        expect(served.text).toBe(text);
        const complete = completeAfter(tokens, text);
        const isWhole = (i: number) => Buffer.from(text.slice(0, complete[i])).length === tokens.slice(0, i + 1).flat().length;
        const atCharacters = complete.map((_, i) => i).filter(isWhole);
        expect(atCharacters.map((i) => textEnds[i])).toEqual(atCharacters.map((i) => complete[i]));
      }),
      { numRuns: 200 },
    );
  });

  it('gives every cut all the tokens it needs {any bytes, special tokens among them}', () => {
    const token = fc.oneof(
      { arbitrary: fc.uint8Array({ minLength: 1, maxLength: 3 }).map((bytes): Token => [...bytes]), weight: 3 },
      { arbitrary: fc.constantFrom<Token[]>([0xc3], [0xa9], [0xf0, 0x9f], [0x99, 0x82], [0x61], [0x20, 0x62]), weight: 3 },
      { arbitrary: fc.constantFrom<Token[]>('<|im_start|>', '<|im_end|>', '</s>'), weight: 1 },
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 40 }), (tokens) => {
        const { text, strings } = serve(tokens);
        const { textEnds, tail, unexplained } = alignTokens(text, strings, false);
        expect([tail, unexplained]).toEqual(['', 0]);
        expect([...textEnds].every((end, i) => end >= (textEnds[i - 1] ?? 0))).toBe(true);
        expect(textEnds.at(-1) ?? 0).toBe(tokens.length === 0 ? 0 : text.length);
        const complete = completeAfter(tokens, text);
        expect([...textEnds].slice(0, -1).every((end, i) => end <= complete[i]!)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('leaves special tokens out, wherever they are', () => {
    const tokens = ['<|im_end|>', 'a', '<|im_end|>', '<|im_end|>', ' b', '<|im_end|>'];
    expect(alignTokens('a b', tokens, false)).toMatchObject({ textEnds: Int32Array.of(0, 1, 1, 1, 3, 3), tail: '' });
  });

  it('gives U+FFFD to the token that stays unfinished, special tokens in between or not', () => {
    expect(alignTokens('\uFFFDx', ['', 'x'], false).textEnds).toEqual(Int32Array.of(1, 2));
    expect(alignTokens('x\uFFFD\uFFFDx', ['x', '', '<|im_start|>', '', 'x'], false).textEnds).toEqual(Int32Array.of(1, 1, 1, 3, 4));
    expect(alignTokens('é</s', ['', '<|im_start|>', '', '</s'], false).textEnds).toEqual(Int32Array.of(0, 0, 1, 4));
  });

  it('lets a token end too early, never too late, where tokens between two cannot be distinguished', () => {
    const tokens = [[195, 169, 226, 130], [172, 240, 159, 153], [130, 240, 159, 153], [130, 226, 130, 172], [195], [169]];
    const { text, strings } = serve(tokens);
    expect([text, strings]).toEqual(['é€🙂🙂€é', ['', '', '', '\uFFFD€', '', 'é']]);
    expect(alignTokens(text, strings, false).textEnds[4]).toBeLessThanOrEqual(7);
  });

  it('counts UTF-16 units where the server counts code points', () => {
    expect(alignTokens('🙂🙂a', ['🙂', '🙂', 'a'], false).textEnds).toEqual(Int32Array.of(2, 4, 5));
  });

  it('gives the rest of a character to the token that begins with it', () => {
    expect(alignTokens('€, b', ['', '\uFFFD, b'], false).textEnds).toEqual(Int32Array.of(0, 4));
  });

  it('puts what a stop string cuts off the last token into the tail', () => {
    expect(alignTokens('a</search>', ['a', '</', 'search', '>\n'], true)).toMatchObject({ textEnds: Int32Array.of(1, 3, 9, 11), tail: '\n' });
    expect(alignTokens('é>', ['', '', '\uFFFD>\n\n'], true)).toMatchObject({ textEnds: Int32Array.of(0, 0, 4), tail: '\n\n' });
    expect(alignTokens('a', ['a', '<|im_end|>'], false).tail).toBe('');
  });

  it('finds its way back after strings that the text does not hold', () => {
    const { textEnds } = alignTokens('one two three', ['one', ' TWO', ' three'], false);
    expect([textEnds[0], textEnds[2]]).toEqual([3, 13]);
    expect(alignTokens('lost', ['other', 'things'], false).textEnds).toEqual(Int32Array.of(0, 4));
  });

  it('restores the space that SentencePiece drops from a token decoded alone', () => {
    expect(alignTokens('Who is it', ['Who', 'is', 'it'], false).textEnds).toEqual(Int32Array.of(3, 6, 9));
  });

  it('takes hostile output in linear time {32,000 unfinished and special tokens over 200,000 characters of U+FFFD}', () => {
    const tokens = Array.from({ length: 32_000 }, (_, i) => (i % 2 === 0 ? '' : '<|im_start|>'));
    const { textEnds } = alignTokens('\uFFFD'.repeat(200_000), tokens, false);
    expect(textEnds.at(-1)).toBe(200_000);
  });
});
