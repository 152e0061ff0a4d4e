import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePassage, parsePassages } from '../../src/retrieval/passage-shapes.ts';

describe('parsePassages of ids beyond 2^53', () => {
  it('keeps their digits', () => {
    const body = Buffer.from('{"result":[[{"document":{"id":9007199254740993,"contents":"a"}},{"document":{"id":7,"contents":"b\\ud800"}}]]}');
    expect(parsePassages(body, 1)).toEqual({
      ok: true,
      value: [
        [
          { id: '9007199254740993', contents: 'a' },
          { id: '7', contents: 'b\ufffd' },
        ],
      ],
    });
  });
});

describe('parsePassage', () => {
  it.each([
    ['upstream, dense', { document: { id: '7', contents: '"T"\nx' }, score: 0.5 }, { id: '7', contents: '"T"\nx', score: 0.5 }],
    ['upstream, BM25', { document: { title: 'T', text: 'x', contents: '"T"\nx' }, score: 2 }, { contents: '"T"\nx', score: 2 }],
    ['upstream, online', { document: { contents: '"T"\nx' } }, { contents: '"T"\nx' }],
    ['upstream, reranked', { document: 'T\nx', score: 1 }, { contents: 'T\nx', score: 1 }],
    ['bare string', 'T\nx', { contents: 'T\nx' }],
    ['flat', { id: 3, contents: 'T\nx', score: 1 }, { id: '3', contents: 'T\nx', score: 1 }],
    ['title and text', { document: { title: 'T', text: 'x' } }, { contents: '"T"\nx' }],
    ['quoted title', { title: '"T"', text: 'x' }, { contents: '"T"\nx' }],
    ['title of two lines', { title: 'T \n U', text: 'x' }, { contents: '"T U"\nx' }],
    ['text alone', { text: 'x' }, { contents: 'x' }],
    ['empty contents', { document: { contents: '' } }, { contents: '' }],
    ['null score', { document: { contents: 'x' }, score: null }, { contents: 'x' }],
  ])('reads the shape {%s}', (_, hit, passage) => {
    expect(parsePassage(hit)).toEqual(passage);
  });

  it.each([[null], [1], [[]], [{}], [{ document: null }], [{ document: [] }], [{ document: { contents: 1 } }], [{ title: 'T' }]])(
    'finds no passage in %j',
    (hit) => {
      expect(parsePassage(hit)).toBeNull();
    },
  );
});

describe('parsePassages', () => {
  it('never throws, and what it accepts has one list per query {any JSON}', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(3), fc.boolean(), (value, count, wrapped) => {
        const parsed = parsePassages(Buffer.from(JSON.stringify(wrapped ? { result: value } : value)), count);
        expect(parsed.ok ? parsed.value.length : count).toBe(count);
      }),
    );
  });
});
