import { RetrievalError, TimeoutError } from 'vf-search';
import { CORRECTIVE_MESSAGE, makePrefix, observation, SearchR1Env } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { environmentWith, fixedRetriever, PARIS, play, QUESTION } from './fixtures.ts';

const SEARCH = '<search> eiffel tower </search>';
const ANSWER = '<answer> Paris </answer>';

describe('SearchR1Env', () => {
  it('plays two searching turns and one that cannot search', async () => {
    const retriever = fixedRetriever([PARIS]);
    const { played } = await play(environmentWith({ retriever }), [SEARCH, SEARCH, SEARCH, 'never reached']);
    expect(retriever.asked).toEqual([
      { queries: ['eiffel tower'], topk: 3 },
      { queries: ['eiffel tower'], topk: 3 },
    ]);
    expect(played.stop).toBe('max_turns_reached');
    expect(played.segments.map((s) => s.kind)).toEqual(['model', 'observation', 'model', 'observation', 'model']);
    expect(played.state).toMatchObject({ turns: 3, valid_action: 3, valid_search: 3, searches: 2, answered: false });
  });

  it('ends with completed at the answer, with nothing appended', async () => {
    const { played } = await play(environmentWith(), [SEARCH, ANSWER, 'never reached']);
    expect(played.stop).toBe('completed');
    expect(played.segments.at(-1)).toEqual({ kind: 'model', text: ANSWER });
    expect(played.generations).toHaveLength(2);
  });

  it('takes an answer on the last generation', async () => {
    const { played } = await play(environmentWith({ maxTurns: 0 }), [ANSWER]);
    expect(played.stop).toBe('completed');
    expect(played.state).toMatchObject({ turns: 1, answered: true });
  });

  it('appends the corrective message as a segment of its own kind, and not after the last generation', async () => {
    const { played } = await play(environmentWith({ maxTurns: 1 }), ['hm', 'hm']);
    expect(played.segments).toEqual([
      { kind: 'model', text: 'hm' },
      { kind: 'corrective', text: CORRECTIVE_MESSAGE },
      { kind: 'model', text: 'hm' },
    ]);
    expect(played.state).toMatchObject({ turns: 2, valid_action: 0, valid_search: 0, searches: 0 });
  });

  it('searches for an empty query and shows an empty result', async () => {
    const retriever = fixedRetriever([]);
    const { played } = await play(environmentWith({ retriever, maxTurns: 1 }), ['<search></search>', 'x']);
    expect(retriever.asked).toEqual([{ queries: [''], topk: 3 }]);
    expect(played.segments[1]).toEqual({ kind: 'observation', text: '\n\n<information></information>\n\n' });
  });

  it('keeps every passage that the engine gives, also beyond topk', async () => {
    const passages = ['a', 'b', 'c'].map((contents) => ({ contents }));
    const { played } = await play(environmentWith({ retriever: fixedRetriever(passages), topk: 1, maxTurns: 1 }), [SEARCH, 'x']);
    expect(played.segments[1]!.text).toBe(observation(passages));
  });

  it('cuts what a policy wrote beyond its action', async () => {
    const { played } = await play(environmentWith({ maxTurns: 1 }), [`${SEARCH} and then ${ANSWER}`, 'x'], { ignoresStop: true });
    expect(played.segments[0]!.text).toBe(SEARCH);
  });

  it('asks with upstream’s prompt, lengths and stop string by default', async () => {
    const environment = environmentWith();
    expect(environment.eval.at(0).prompt).toEqual([{ role: 'user', content: makePrefix('which city is the eiffel tower in?') }]);
    expect(environment.limits).toEqual({ responseTokens: 500, observationTokens: 500, contextTokens: 4096 });
    expect(environment.stop).toEqual(['</search>']);
    expect(environment.turnFormat).toBe('continuation');
    expect(environmentWith({ stopAtAnswer: true }).stop).toEqual(['</search>', '</answer>']);
  });

  it('gives the golden answers to rubrics untouched', () => {
    const row = environmentWith({ rows: [{ ...QUESTION, golden_answers: [' Paris ', 'paris'] }] }).eval.at(0);
    expect(row.exampleId).toBe('q1');
    expect(row.info.ground_truth).toEqual({ target: [' Paris ', 'paris'] });
    expect(row.info).toMatchObject({ data_source: 'nq', ability: 'fact-reasoning', extra_info: { split: 'test', index: 0 } });
    expect(row).not.toHaveProperty('answer');
    expect(environmentWith().eval.at(0).answer).toBe('Paris');
  });

  it('turns a retriever’s failure into an error without a reward, never into an empty result', async () => {
    const failing = (error: Error) => ({
      name: 'r',
      search: async () => {
        throw error;
      },
      close: async () => {},
    });
    for (const [error, type] of [
      [new RetrievalError('503'), 'RetrievalError'],
      [new TimeoutError('late'), 'TimeoutError'],
      [new TypeError('a bug'), 'RetrievalError'],
    ] as const) {
      const { played } = await play(environmentWith({ retriever: failing(error) }), [SEARCH, ANSWER]);
      expect(played.stop).toBe('has_error');
      expect(played.error).toMatchObject({ type, phase: 'environment' });
      expect(played.segments.some((s) => s.kind === 'observation')).toBe(false);
    }
  });

  it.each([[[]], [[[PARIS], [PARIS]]]])('refuses %j as the lists for one query', async (lists) => {
    const retriever = { name: 'r', search: async () => lists, close: async () => {} };
    const { played } = await play(environmentWith({ retriever }), [SEARCH]);
    expect(played.error).toMatchObject({ type: 'RetrievalError', message: expect.stringMatching(/returned \d lists of passages for one query/) });
  });

  it('does not ask the retriever when the policy does not search', async () => {
    const retriever = fixedRetriever([PARIS]);
    await play(environmentWith({ retriever, maxTurns: 1 }), ['hm', ANSWER]);
    expect(retriever.asked).toEqual([]);
  });

  it('closes its retriever', async () => {
    let closed = 0;
    const environment = environmentWith({ retriever: { ...fixedRetriever([]), close: async () => void (closed += 1) } });
    await environment.close();
    expect(closed).toBe(1);
  });

  it('refuses a negative number of turns', () => {
    expect(() => environmentWith({ maxTurns: -1 })).toThrow(/maxTurns/);
    expect(() => environmentWith({ maxTurns: 1.5 })).toThrow(/maxTurns/);
  });

  it('scores the same text for a chat policy', async () => {
    const environment = environmentWith();
    const turns = ['<think>t</think><search>q</search>', `<think>u</think>${ANSWER}`];
    const [tokens, chat] = [await play(environment, turns), await play(environment, turns, { kind: 'chat' })];
    expect(chat.played.segments).toEqual(tokens.played.segments);
    expect(await chat.score()).toEqual(await tokens.score());
  });

  it('has one copy of its class however it is imported', async () => {
    const again = await import('../../../environments/search-r1/environment.ts');
    expect(again.SearchR1Env).toBe(SearchR1Env);
  });
});
