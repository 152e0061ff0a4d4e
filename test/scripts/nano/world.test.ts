/** The generator of the fact world runs with python3 alone; its data set is the committed one and its texts are the environment's. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openRetriever } from 'vf-search';
import { CORRECTIVE_MESSAGE, cutResponse, loadEnvironment, makePrefix, observation, parseAction } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';

const ROOT = path.join(import.meta.dirname, '../../..');
const SCRIPTS = path.join(ROOT, 'scripts/nano');
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SCRIPTS };
const SPLITS = ['corpus', 'train', 'heldout'];

function generate(...options: string[]): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'vf-fact-world-'));
  execFileSync('python3', [path.join(SCRIPTS, 'world.py'), '--out', folder, ...options], { env });
  return folder;
}

function python(program: string): unknown {
  return JSON.parse(execFileSync('python3', ['-c', `import json\n${program}`], { env, encoding: 'utf8' })) as unknown;
}

type Line = Record<string, unknown> & { question: string; golden_answers: string[] };
const read = (folder: string, split: string) => readFileSync(path.join(folder, `${split}.jsonl`), 'utf8');
const lines = (folder: string, split: string) =>
  read(folder, split)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

describe('scripts/nano/world.py', () => {
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

describe('scripts/nano/protocol.py', () => {
  it('writes the prompt, the corrective message and the observation of the environment', () => {
    const texts = python(`
from protocol import CORRECTIVE_MESSAGE, PROMPT_HEAD, observation, prompt_tail
from world import document
found = [document("Kinzer", "export", "rice"), document("Kinzer", "mayor", "Purorka")]
print(json.dumps({"prompt": PROMPT_HEAD + prompt_tail("Who is the mayor of Kinzer?"), "corrective": CORRECTIVE_MESSAGE,
  "found": observation(found), "empty": observation([])}))`);
    const passages = [{ contents: 'Kinzer\nThe main export of Kinzer is rice.' }, { contents: 'Kinzer\nThe mayor of Kinzer is Purorka.' }];
    expect(texts).toEqual({
      prompt: makePrefix('Who is the mayor of Kinzer?'),
      corrective: CORRECTIVE_MESSAGE,
      found: observation(passages),
      empty: observation([]),
    });
  });

  it('cuts and reads a turn as the environment does', () => {
    const turns = [
      '<think> a</think><search> b</search> c',
      '<answer> x</answer><search> y</search>',
      '<answer> x </answer> rest',
      '<search> open',
      '<search> a</answer>',
      '',
    ];
    const theirs = python(`
from protocol import keep, parse_action
print(json.dumps([[keep(t), *parse_action(keep(t))] for t in json.loads(${JSON.stringify(JSON.stringify(turns))})]))`);
    const ours = turns.map((turn) => {
      const { action, content } = parseAction(cutResponse(turn));
      return [cutResponse(turn), action, content];
    });
    expect(theirs).toEqual(ours);
  });
});

describe('scripts/nano/retriever.py', () => {
  it('ranks like the BM25 of the package on every good query of the held-out questions', async () => {
    const theirs = python(`
from retriever import Retriever
from world import EVALUATION_SEED, RELATIONS, World, held_out_questions, split_towns
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
