import { expect, it } from 'vitest';
import { fused } from '../../src/retrieval/hybrid.ts';
import type { Passage, Retriever } from '../../src/retrieval/retriever.ts';

const signal = new AbortController().signal;

function ranking(...passages: readonly Passage[]): Retriever {
  return { name: 'ranking', search: async (queries) => queries.map(() => passages), close: async () => {} };
}

const passage = (id: string, contents = id): Passage => ({ id, contents });

it('counts the best rank alone of a passage that one engine names several times', async () => {
  const engines = [ranking(passage('a'), passage('b'), passage('b'), passage('b')), ranking(passage('a'), passage('c'))];
  const [found] = await fused(engines, { name: 'both' }).search(['q'], { topk: 3, signal });
  expect(found!.map(({ id, score }) => [id, score])).toEqual([
    ['a', 2 / 61],
    ['b', 1 / 62],
    ['c', 1 / 62],
  ]);
});

it('fuses passages that share an id by their texts', async () => {
  const engines = [ranking(passage('a', 'x'), passage('a', 'y')), ranking(passage('a', 'y'), passage('b'))];
  const [found] = await fused(engines, { name: 'both' }).search(['q'], { topk: 3, signal });
  expect(found!.map(({ contents, score }) => [contents, score])).toEqual([
    ['y', 1 / 62 + 1 / 61],
    ['x', 1 / 61],
    ['b', 1 / 62],
  ]);
});

it('does so by contents where passages have no id', async () => {
  const engines = [ranking({ contents: 'x' }, { contents: 'y' }, { contents: 'y' }), ranking({ contents: 'x' })];
  const [found] = await fused(engines, { name: 'both' }).search(['q'], { topk: 3, signal });
  expect(found!.map(({ contents, score }) => [contents, score])).toEqual([
    ['x', 2 / 61],
    ['y', 1 / 62],
  ]);
});
