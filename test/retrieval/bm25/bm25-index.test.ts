import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { Bm25Index, type Bm25Parameters } from '../../../src/retrieval/bm25/bm25-index.ts';
import { analyze } from '../../../src/retrieval/bm25/english-analyzer.ts';
import { decodeLength, encodeLength } from '../../../src/retrieval/bm25/field-length.ts';
import { nqMiniCorpus } from '../../nq-mini-corpus.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const { fround } = Math;

interface Golden {
  cases: { id: string; input: { query: string; topk: number }; output: Record<string, [string, number][]> }[];
}

/** Every passage scored by Lucene's formula, straight from the terms; shares nothing with the index but analysis and the length byte. */
function bruteForce(passages: readonly string[], query: string, topk: number, { k1, b }: Bm25Parameters): { row: number; score: number }[] {
  const documents = passages.map(analyze);
  const filled = documents.filter((terms) => terms.length > 0);
  const average = fround(filled.reduce((sum, terms) => sum + terms.length, 0) / filled.length);
  const asked = analyze(query);
  const hits: { row: number; score: number }[] = [];
  for (const [row, document] of documents.entries()) {
    let score = 0;
    let isHit = false;
    for (const term of new Set(asked)) {
      const frequency = Math.min(255, document.filter((t) => t === term).length);
      if (frequency === 0) continue;
      isHit = true;
      const df = documents.filter((t) => t.includes(term)).length;
      const idf = fround(Math.log(1 + (filled.length - df + 0.5) / (df + 0.5)));
      const weight = fround(asked.filter((t) => t === term).length * idf);
      const length = decodeLength(encodeLength(document.length));
      const norm = fround(fround(k1) * fround(fround(1 - fround(b)) + fround(fround(fround(b) * fround(length)) / average)));
      score += fround(weight - fround(weight / fround(1 + fround(frequency * fround(1 / norm)))));
    }
    if (isHit) hits.push({ row, score: fround(score) });
  }
  return hits.toSorted((x, y) => y.score - x.score || x.row - y.row).slice(0, topk);
}

const words = ['cat', 'dog', 'fish', 'Running', 'the', 'tower', '東京', 'ひら', '한국어', '𝐀𝐁', '😀', '\ud800', "U.S.A.'s", '1,000', 'x_y'];
const word = fc.constantFrom(...words);
const text = fc.array(
  fc.tuple(word, fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 3 }) }, { weight: 1, arbitrary: fc.constant(300) })),
  { maxLength: 6 },
);
const spell = (parts: readonly [string, number][]): string => parts.map(([w, n]) => `${w} `.repeat(n)).join('');
const parameters = fc.record({
  k1: fc.oneof(fc.constantFrom(0, 0.9, 1.2, 1000, 1e-20, 1e30), fc.double({ min: 0, max: 5, noNaN: true })),
  b: fc.oneof(fc.constantFrom(0, 0.4, 0.75, 1), fc.double({ min: 0, max: 1, noNaN: true })),
});

describe('Bm25Index', () => {
  const rows = nqMiniCorpus()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; contents: string });
  const contents = rows.map((row) => row.contents);
  let index: Bm25Index;
  beforeAll(() => {
    index = Bm25Index.build(contents);
  });

  for (const file of ['bm25_lucene_test', 'bm25_lucene_stress']) {
    it(`ranks as Lucene does and scores to its printed digits (${file})`, () => {
      const { cases } = JSON.parse(read(`test/golden/parity/${file}.json`)) as Golden;
      expect(cases.length).toBeGreaterThan(200);
      for (const { id, input, output } of cases) {
        for (const [key, k1, b, most] of [
          ['k1_0.9_b_0.4', 0.9, 0.4, input.topk],
          ['k1_1.2_b_0.75', 1.2, 0.75, 3],
        ] as const) {
          const hits = index.search(input.query, most, { k1, b });
          expect([id, hits.map((hit) => rows[hit.row]!.id)]).toEqual([id, output[key]!.map(([passage]) => passage)]);
          // Half a unit of the fourth decimal, and what 32 bits cannot tell apart at this size.
          for (const [i, hit] of hits.entries()) expect(Math.abs(hit.score - output[key]![i]![1])).toBeLessThan(5e-5 + 2e-7 * hit.score);
        }
      }
    });
  }

  it('gives what scoring every passage gives { small corpora, repeats, ties, scripts, surrogates, any k1 and b, any number of shards }', () => {
    const property = fc.property(
      fc.array(text, { minLength: 1, maxLength: 40 }),
      text,
      parameters,
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 40 }),
      (parts, query, p, topk, shardRows) => {
        const passages = parts.map(spell);
        const expected = bruteForce(passages, spell(query), topk, p);
        expect(Bm25Index.build(passages).search(spell(query), topk, p)).toEqual(expected);
        expect(Bm25Index.build(passages, { shardRows }).search(spell(query), topk, p)).toEqual(expected);
      },
    );
    fc.assert(property, { numRuns: 60 });
  });

  it('prunes nothing that belongs in the result { real passages; the pruned search and the full one agree }', () => {
    const vocabulary = contents.slice(0, 300).join(' ').split(/\s+/);
    const query = fc.array(fc.constantFrom(...vocabulary), { minLength: 1, maxLength: 40 }).map((list) => list.join(' '));
    fc.assert(
      fc.property(
        query,
        fc.constantFrom(1, 3, 10, 128),
        parameters.filter(({ k1 }) => [0.9, 1.2, 0].includes(k1)),
        (q, topk, { k1, b }) => {
          const p = { k1, b: Math.round(b * 2) / 2 };
          // More than 128 hits are not pruned.
          expect(index.search(q, topk, p)).toEqual(index.search(q, 129, p).slice(0, topk));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('ranks and scores the same in shards of any size, statistics being the whole corpus’s', () => {
    const questions = read('datasets/nq-mini/test.jsonl')
      .trim()
      .split('\n')
      .slice(0, 20)
      .map((line) => (JSON.parse(line) as { question: string }).question);
    const some = contents.slice(0, 2000);
    const whole = Bm25Index.build(some);
    for (const shardRows of [300, 1000]) {
      const sharded = Bm25Index.build(some, { shardRows });
      expect(sharded.corpus.shards.length).toBe(Math.ceil(some.length / shardRows));
      for (const question of questions) expect(sharded.search(question, 10)).toEqual(whole.search(question, 10));
    }
  });

  it('answers queries of more terms than pruning is for, and of every word of the corpus', () => {
    const query = contents.slice(0, 40).join(' ');
    expect(new Set(analyze(query)).size).toBeGreaterThan(512);
    const few = contents.slice(0, 100);
    expect(Bm25Index.build(few).search(query, 5)).toEqual(bruteForce(few, query, 5, { k1: 0.9, b: 0.4 }));
    expect(index.search(contents.join(' '), 3).length).toBe(3);
  });

  it('counts a term up to 255 times', () => {
    const [more, less] = Bm25Index.build([`${'cat '.repeat(250)}${'dog '.repeat(50)}`, 'cat '.repeat(300)]).search('cat', 2, { k1: 0.9, b: 0 });
    expect(more!.row).toBe(1);
    expect(more!.score).toBeGreaterThan(less!.score);
    expect(Bm25Index.build(['cat '.repeat(300), 'cat '.repeat(400)]).search('cat', 2, { k1: 0.9, b: 0 })).toMatchObject([{ row: 0 }, { row: 1 }]);
  });

  it('counts only passages with terms in its statistics, as Lucene does', () => {
    const [hit] = Bm25Index.build(['cat', '', 'the', 'dog dog']).search('cat', 1);
    expect(hit).toEqual(bruteForce(['cat', 'dog dog'], 'cat', 1, { k1: 0.9, b: 0.4 })[0]);
  });

  it('finds nothing in an empty corpus, for an empty query, for stop words and for unknown words', () => {
    expect(Bm25Index.build([]).search('cat', 3)).toEqual([]);
    for (const query of ['', 'the of and', 'qqqqzzzz', '\u0000', '\ud800']) expect(index.search(query, 3)).toEqual([]);
  });

  it('takes queries of megabytes in its stride', () => {
    expect(index.search('a'.repeat(2_000_000), 3)).toEqual([]);
    expect(index.search(`${'paris '.repeat(300_000)}\u0000\ud800`, 3).map((hit) => hit.row)).toEqual(index.search('paris', 3).map((hit) => hit.row));
  });

  it('refuses a topk, k1, b or shard size that means nothing', () => {
    for (const topk of [0, -1, 1.5, NaN, Infinity]) expect(() => index.search('cat', topk)).toThrow(ConfigError);
    for (const wrong of [{ k1: -1 }, { k1: NaN }, { k1: Infinity }, { b: -0.1 }, { b: 1.1 }, { b: NaN }]) {
      expect(() => index.search('cat', 1, wrong)).toThrow(ConfigError);
    }
    for (const shardRows of [0, 2 ** 24 + 1, 1.5]) expect(() => Bm25Index.build([], { shardRows })).toThrow(ConfigError);
  });
});

describe('encodeLength', () => {
  it('keeps lengths to 39, rounds down beyond, and never reorders { any two lengths }', () => {
    for (let length = 0; length < 40; length++) expect(decodeLength(encodeLength(length))).toBe(length);
    const length = fc.integer({ min: 0, max: 2 ** 30 });
    fc.assert(
      fc.property(length, length, (x, y) => {
        expect(decodeLength(encodeLength(x))).toBeLessThanOrEqual(x);
        expect(decodeLength(encodeLength(x))).toBeGreaterThan(x * 0.87 - 6);
        expect(encodeLength(Math.min(x, y))).toBeLessThanOrEqual(encodeLength(Math.max(x, y)));
        expect(encodeLength(decodeLength(encodeLength(x)))).toBe(encodeLength(x));
      }),
      { numRuns: 80 },
    );
  });
});
