import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ConfigError, loadEnvironment as loadById, RetrievalError } from 'vf-search';
import { loadEnvironment, SearchR1Env } from 'vf-search/environments/search-r1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loopback, refusingUrl, sendJson } from '../../transport/loopback.ts';
import { play } from './fixtures.ts';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'search-r1-'))));
afterAll(() => rm(folder, { recursive: true }));

async function written(name: string, lines: readonly unknown[]): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return file;
}

describe('loadEnvironment', () => {
  it('plays nq-mini’s test questions over its own corpus by default', async () => {
    const environment = await loadEnvironment({ max_obs_length: 5000 });
    try {
      expect(environment.eval.length).toBe(500);
      expect(environment.eval.at(0).info).toMatchObject({ data_source: 'nq-mini', extra_info: { split: 'test', index: 0 } });
      expect(environment.notices).toEqual([expect.stringContaining('not comparable with published NQ')]);
      const turns = ['<think>t</think><search>who was the actor that played ben stone on law and order</search>', 'hm'];
      const { played } = await play(environment, turns);
      expect(played.segments[1]!.text).toMatch(/^\n\n<information>Doc 1\(Title: "[^]*Michael Moriarty/);
      expect(played.segments[1]!.text).toContain('Doc 3(Title: ');
    } finally {
      await environment.close();
    }
  });

  it('keeps the plain columns of a table in info, and says which golden answers have nothing left to compare', async () => {
    const file = path.join(folder, 'team.csv');
    await writeFile(file, '\ufeffnr,ask,gold,team,meta\r\n7,Who?,The,red,"{""a"": [1]}"\r\n8,What?,"[""!!!"", ""x""]",blue,\r\n');
    const environment = await loadEnvironment({ dataset: file, columns: { question: 'ask', answer: 'gold', id: 'nr' }, corpus: 'fact-world' });
    await environment.close();
    const [first, second] = environment.eval;
    expect([first!.exampleId, first!.info['team'], first!.info['meta'], first!.info.ground_truth.target]).toEqual(['7', 'red', undefined, ['The']]);
    expect([second!.exampleId, second!.info['team'], second!.info.ground_truth.target]).toEqual(['8', 'blue', ['!!!', 'x']]);
    expect(environment.notices).toContainEqual(
      expect.stringMatching(/^2 golden answers are empty without case, articles and punctuation, such as "The" of the row 7: .* Reword them\.$/),
    );
    for (const columns of [{ query: 'ask' }, { question: '' }, 'ask'])
      await expect(loadEnvironment({ dataset: file, columns })).rejects.toThrow(
        /^columns must be an object with names of columns for question, answer, id, got/,
      );
  });

  it('trains on the train split and holds the test split out, unless a split is named', async () => {
    const splits = async (args: Record<string, unknown>) => {
      const environment = await loadById('search-r1', { dataset: 'fact-world', ...args }, { purpose: 'training' });
      await environment.close();
      return [environment.train.length, environment.eval.length];
    };
    expect(await splits({})).toEqual([1440, 240]);
    expect(await splits({ data_split: 'test' })).toEqual([240, 240]);
  });

  it.each(['upstream', 'completion'])(
    'pays 1 for the golden answer of every nq-mini question, the format share for a made-up one {scorer %s}',
    async (scorer) => {
      const environment = await loadEnvironment({ corpus: 'fact-world', preset: 'v0.3', scorer });
      for (const [index, row] of [...environment.eval].entries()) {
        const golden = row.info.ground_truth.target[0];
        const right = await play(environment, [`<think> t </think>\n<answer> ${golden} </answer>`], { index });
        expect({ index, ...(await right.score()) }).toMatchObject({ index, reward: 1, metrics: { em_model_authored: 1, format_valid: 1 } });
        const wrong = await play(environment, ['<answer> zxqv </answer>'], { index });
        expect({ index, ...(await wrong.score()) }).toMatchObject({ index, reward: 0.1, metrics: { em: 0, em_model_authored: 0 } });
      }
      await environment.close();
    },
  );

  it('answers the fact world’s questions from its own corpus', async () => {
    const environment = await loadEnvironment({ dataset: 'fact-world', data_limit: 3 });
    expect(environment.eval.length).toBe(3);
    expect(environment.notices).toEqual([]);
    expect(JSON.stringify(environment.provenance)).toContain('fact-world');
    await environment.close();
  });

  it('accepts files for both, and says when the corpus is not made for the questions', async () => {
    const dataset = await written('mine.jsonl', [{ question: 'who is x', golden_answers: ['X'] }]);
    const corpus = await written('corpus.jsonl', [{ id: '0', contents: '"X"\nX is a person.' }]);
    const environment = await loadEnvironment({ dataset, corpus, topk: 1 });
    expect((await play(environment, ['<search>x</search>', 'a', 'b'])).played.segments[1]!.text).toContain('Doc 1(Title: "X") X is a person.');
    expect(environment.notices).toEqual([]);
    await environment.close();
    const other = await loadEnvironment({ dataset });
    expect(other.notices.join(' ')).toMatch(/answered from the corpus nq-mini; name a corpus or a retriever_url/);
    await other.close();
  });

  it('describes itself for a results file, JSON-ready', async () => {
    const environment = await loadEnvironment({ dataset: 'fact-world', preset: 'v0.3', max_turns: 4, data_limit: 1, scorer: 'completion' });
    expect(JSON.parse(JSON.stringify(environment.provenance))).toMatchObject({
      upstream: expect.stringMatching(/Search-R1@a14dc3a4/),
      questions: { dataset: 'fact-world', split: 'test', rows: 1 },
      arguments: {
        preset: 'v0.3',
        dataset: 'fact-world',
        corpus: 'fact-world',
        topk: 3,
        max_turns: 4,
        scorer: 'completion',
        structure_format_score: 0.2,
        final_format_score: 0.1,
        overlong: 'stop',
        max_obs_length: 500,
      },
    });
    await environment.close();
  });

  it.each([[{ data_split: 'nowhere' }], [{ dataset: 'no-such-set' }], [{ corpus: 'no-such-corpus' }], [{ engine: 'serper' }], [{ what: 1 }]])(
    'refuses %j in one line',
    async (args) => {
      const failure = await loadEnvironment(args).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(ConfigError);
      expect((failure as Error).message).not.toContain('\n');
    },
  );

  it('keeps credentials of a retriever’s URL out of it', async () => {
    await using server = await loopback((_, response) => sendJson(response, 200, { result: [[]] }));
    const environment = await loadEnvironment({ retriever_url: `${server.url.replace('//', '//me:secret@')}/retrieve`, data_limit: 1 });
    expect(JSON.stringify(environment.provenance)).toContain('127.0.0.1:');
    expect(JSON.stringify([environment.provenance, environment.notices])).not.toContain('secret');
    await environment.close();
  });

  it('refuses a retriever that is not there, before any rollout is played', async () => {
    const url = `${(await refusingUrl()).replace('//', '//me:secret@')}/retrieve`;
    const failure = await loadEnvironment({ retriever_url: url, data_limit: 1 }).catch((error: unknown) => error as Error);
    expect(failure).toBeInstanceOf(RetrievalError);
    expect((failure as Error).message).toMatch(/^http:.* returned no passages: .*ECONNREFUSED.*Start the retrieval server/);
    expect((failure as Error).message).not.toContain('secret');
  });

  it('says where upstream would cut the scored prompt', async () => {
    const environment = await loadEnvironment({ dataset: 'fact-world', data_limit: 2, max_start_length: 100 });
    expect(environment.notices).toEqual([expect.stringMatching(/^2 of 2 prompts may exceed max_start_length 100/)]);
    await environment.close();
  });

  it('is what the id search-r1 loads, the same class', async () => {
    const environment = await loadById('search-r1', { dataset: 'fact-world', data_limit: 1 });
    expect(environment).toBeInstanceOf(SearchR1Env);
    await environment.close();
  });

  it('cuts as upstream does when asked to, and says so', async () => {
    const environment = await loadEnvironment({ dataset: 'fact-world', data_limit: 1, overlong: 'upstream', max_prompt_length: 700, max_turns: 1 });
    expect(environment.notices.join(' ')).toContain('never exported or trained on');
    const { played } = await play(environment, ['hm', 'hm']);
    expect(played).toMatchObject({ stop: 'max_turns_reached', isCut: true });
    await environment.close();
    const stopping = await loadEnvironment({ dataset: 'fact-world', data_limit: 1, max_prompt_length: 700, max_turns: 1 });
    expect((await play(stopping, ['hm', 'hm'])).played).toMatchObject({ stop: 'prompt_too_long', isCut: false });
    await stopping.close();
  });
});
