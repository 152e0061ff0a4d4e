/** The generator of the fact world runs with python3 alone; its data set is the committed one. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openRetriever } from 'vf-search';
import { loadEnvironment } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { python, runModule } from '../python.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const SPLITS = ['corpus', 'train', 'heldout'];

function generate(...options: string[]): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'vf-fact-world-'));
  runModule('recipes.base.world', ['--out', folder, ...options]);
  return folder;
}

type Line = Record<string, unknown> & { question: string; golden_answers: string[] };
const read = (folder: string, split: string) => readFileSync(path.join(folder, `${split}.jsonl`), 'utf8');
const lines = (folder: string, split: string) =>
  read(folder, split)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

describe('recipes/base/world.py', () => {
  it('reproduces datasets/fact-world byte for byte', () => {
    const folder = generate();
    for (const split of SPLITS) expect(read(folder, split)).toBe(read(path.join(ROOT, 'datasets/fact-world'), split));
  });

  it('makes another world of the same names, towns and questions for another seed', () => {
    const [first, second] = [generate(), generate('--seed', '7')];
    for (const split of ['train', 'heldout']) {
      const [ours, theirs] = [lines(first, split), lines(second, split)];
      expect(theirs.map((line) => line.question)).toEqual(ours.map((line) => line.question));
      const same = theirs.filter((line, i) => line.golden_answers[0] === ours[i]!.golden_answers[0]);
      expect(same.length / theirs.length).toBeLessThan(0.1);
    }
    expect(read(generate('--seed', '7'), 'corpus')).toBe(read(second, 'corpus'));
  });

  it('holds out the share of towns that is asked for, and never asks about one town on both sides', () => {
    const folder = generate('--held-out', '0.5');
    const towns = (split: string) => new Set(lines(folder, split).map((line) => /of (\w+)\?/.exec(line.question)![1]!));
    const [train, heldOut] = [towns('train'), towns('heldout')];
    expect([train.size, heldOut.size]).toEqual([120, 120]);
    expect([...train].filter((town) => heldOut.has(town))).toEqual([]);
  });

  it('makes files that the environment accepts, with every question answered by its best passage', async () => {
    const folder = generate('--seed', '7');
    const [dataset, corpus] = [path.join(folder, 'heldout.jsonl'), path.join(folder, 'corpus.jsonl')];
    const environment = await loadEnvironment({ dataset, corpus });
    expect(environment.eval.length).toBe(240);
    await environment.close();
    const questions = lines(folder, 'heldout');
    const found = await searchAll(
      corpus,
      questions.map(({ question }) => question),
    );
    for (const [i, { golden_answers: golden }] of questions.entries()) expect(found[i]![0]).toContain(` is ${golden[0]}.`);
  });
});

/** The contents of the first three passages for each query, by the package's BM25. */
async function searchAll(corpus: string, queries: readonly string[]): Promise<string[][]> {
  const retriever = await openRetriever({ corpus });
  try {
    const found = await retriever.search(queries, { topk: 3, signal: AbortSignal.timeout(20_000) });
    return found.map((passages) => passages.map(({ contents }) => contents));
  } finally {
    await retriever.close();
  }
}

describe('recipes/base/retriever.py', () => {
  it('ranks like the BM25 of the package on every good query of the held-out questions', async () => {
    const theirs = python(`
from recipes.base.retriever import Retriever
from recipes.base.world import EVALUATION_SEED, RELATIONS, World, held_out_questions, split_towns
world = World(EVALUATION_SEED)
retriever = Retriever(world.documents)
queries = [RELATIONS[q.relation].query.format(town=q.town) for q in held_out_questions(world, split_towns()[1])]
print(json.dumps([{"query": q, "contents": [f"{d.town}\\n{d.text}" for d in retriever.search(q, 3)]} for q in queries]))`) as {
      query: string;
      contents: string[];
    }[];
    const found = await searchAll(
      'fact-world',
      theirs.map(({ query }) => query),
    );
    expect(theirs).toHaveLength(240);
    expect(found).toEqual(theirs.map(({ contents }) => contents));
  });
});
