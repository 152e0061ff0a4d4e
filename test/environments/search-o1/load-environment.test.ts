import { ConfigError, loadEnvironment as loadById } from 'vf-search';
import { loadEnvironment, SearchO1Env } from 'vf-search/environments/search-o1';
import { describe, expect, it } from 'vitest';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { playScript } from '../play-script.ts';
import { query } from './fixtures.ts';

async function failureOf(args: Record<string, unknown>): Promise<string> {
  const failure = await loadEnvironment(args, { env: {} }).then(
    () => new Error('loaded'),
    (error: unknown) => error as Error,
  );
  expect(failure).toBeInstanceOf(ConfigError);
  expect(failure.message).not.toContain('\n');
  return failure.message;
}

const limitOf = (environment: SearchO1Env) => /limited to (\d+)\./.exec(environment.eval.at(0).prompt[0]!.content as string)![1];

describe('loadEnvironment', () => {
  it('asks nq-mini over its own corpus by default, with 5 searches and 15 turns', async () => {
    const environment = (await loadById('search-o1', { data_limit: 3 })) as unknown as SearchO1Env;
    expect(environment).toBeInstanceOf(SearchO1Env);
    expect([environment.eval.length, limitOf(environment), environment.maxTurns]).toEqual([3, '5', 15]);
    expect(environment.notices).toEqual([expect.stringContaining('nq-mini')]);
    expect(environment.provenance).toMatchObject({
      upstream: 'sunnynexus/Search-o1@6ced48f',
      retriever: 'bm25 nq-mini',
      arguments: {
        dataset: 'nq-mini',
        data_split: 'test',
        instruction: 'singleqa',
        metric: 'em',
        topk: 10,
        max_search_limit: 5,
        max_obs_length: null,
      },
    });
    expect(environment.roles['refiner']).toMatchObject({ default: 'builtin' });
    await environment.close();
  });

  it('trains on the rows of the train split and searches the fact world for its own', async () => {
    const environment = await loadEnvironment({ dataset: 'fact-world', data_limit: 4 }, { purpose: 'training' });
    expect([environment.train.length, environment.eval.length, environment.notices]).toEqual([4, 4, []]);
    const { golden_answers: golden, question } = environment.eval.at(0).info;
    const { played, score } = await playScript(environment, [query(question), `\\boxed{${golden[0]}}`]);
    expect(played.segments[1]!.text).toContain(golden[0]);
    expect((await score()).reward).toBe(1);
    await environment.close();
  });

  it('takes camelCase, sets every limit, and names the instruction', async () => {
    const args = {
      instruction: 'multiqa',
      modelName: 'qwq',
      maxTurn: 3,
      maxObsLength: 20,
      max_prompt_length: 900,
      max_response_length: 50,
      dataset: 'fact-world',
    };
    const environment = await loadEnvironment(args);
    expect([environment.maxTurns, limitOf(environment)]).toEqual([3, '10']);
    expect(environment.limits).toMatchObject({ responseTokens: 50, observationTokens: 20, contextTokens: 900 });
    const prompt = environment.eval.at(0).prompt[0]!.content as string;
    expect(prompt).toContain('Lara Croft');
    expect(prompt).not.toContain('step by step');
    await environment.close();
  });

  it.each([
    [{ metrics: 'em' }, /no argument "metrics"/],
    [{ metric: 'rouge-1' }, /metric must be "em" or "f1" or "acc" or "coverem"/],
    [{ instruction: 'code' }, /instruction must be/],
    [{ max_turn: 0 }, /max_turn must be an integer of at least 1/],
    [{ max_search_limit: -1 }, /at least 0/],
    [{ refine_temperature: -1 }, /a number of at least 0/],
    [{ topk: 3, retriever_topk: 4 }, /topk has two values/],
    [{ corpus: 'nq-mini', retriever_url: 'http://127.0.0.1:1/retrieve' }, /only one of them/],
    [{ corpus: 'nowhere' }, /corpus "nowhere" does not exist/],
  ])('refuses %j in one line', async (args, message) => {
    expect(await failureOf(args)).toMatch(message);
  });

  it('reads passages of a server as pages', async () => {
    await using server = await loopback((_, response) =>
      sendJson(response, 200, { result: [[{ document: { contents: '"Lima"\nLima is the capital of Peru. It is large.' } }]] }),
    );
    const environment = await loadEnvironment({ dataset: 'fact-world', retriever_url: `${server.url}/retrieve` });
    const { played } = await playScript(environment, [query('capital of Peru'), 'done']);
    expect(played.segments[1]!.text).toContain('Lima is the capital of Peru.');
    expect(played.segments[1]!.text).not.toContain('It is large');
    await environment.close();
  });
});
