import { CancelledError, ModelError, RetrievalError } from 'vf-search';
import { openRoleModels, type Rollout, runRollouts } from 'vf-search/rollouts';
import { type PageSearch, pageSearch, SearchO1Env } from 'vf-search/environments/search-o1';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import { codePointTokenizer } from '../../../src/clients/text-tokenizer.ts';
import { playScript as play } from '../play-script.ts';
import { askedSearch, environmentWith, NOTES, PAGES, query, QUESTION, refinerWith, result } from './fixtures.ts';

const FOUND = 'The mayor of Kinzer is Purorka.';
const SEARCH = `I look it up. ${query(' mayor of Kinzer ')}`;
const ANSWER = 'So it is \\boxed{Purorka}.';

describe('SearchO1Env', () => {
  it('inserts what the refiner found behind the query, with mask 0, inside one assistant message', async () => {
    const { played, score } = await play(environmentWith(), [SEARCH, ANSWER]);
    expect(played.segments).toEqual([
      { kind: 'model', text: SEARCH },
      { kind: 'observation', text: result(FOUND) },
      { kind: 'model', text: ANSWER },
    ]);
    expect(played.stop).toBe('completed');
    const { ids, mask, promptLength } = played.branches[0]!.tokens!;
    const sampled = codePointTokenizer.decode(ids.filter((_, i) => i >= promptLength && mask[i] === 1));
    expect(sampled).toBe(SEARCH + ANSWER);
    expect(await score()).toMatchObject({
      reward: 1,
      metrics: { em: 1, f1: 1, acc: 1, coverem: 1, answered: 1, searched: 1, searches: 1, turns: 2, repeated_queries: 0, refused_queries: 0 },
    });
  });

  it('asks the refiner with the reasoning so far, the query and the pages, and gives a builtin one the pages themselves', async () => {
    const asked: { prompt: string; data: unknown; maxTokens: number; sampling: unknown }[] = [];
    const refiner = refinerWith(({ data, maxTokens, sampling }, prompt) => {
      asked.push({ prompt, data, maxTokens, sampling });
      return '\n**Final Information**\n\nRead.';
    });
    const environment = environmentWith({ refineTokens: 77, refineTemperature: 0.7 });
    const { played } = await play(environment, [SEARCH, ANSWER], { models: { refiner } });
    expect(played.segments[1]!.text).toBe(result('Read.'));
    expect(asked).toMatchObject([{ data: { query: 'mayor of Kinzer', pages: PAGES }, maxTokens: 77, sampling: { temperature: 0.7 } }]);
    expect(asked[0]!.prompt).toContain(`Step 1: ${SEARCH}`);
    expect(asked[0]!.prompt).toContain('**Web Page 2:**\n{\n  "id": 2,\n  "title": "Kinzer",');
    expect(asked[0]!.prompt).toContain('"context": "The river of Kinzer is Zumardle."');
  });

  it('counts a query only at the end of a generation: text behind it ends the episode', async () => {
    expect(environmentWith().stop).toEqual(['<|end_search_query|>']);
    for (const [text, asked] of [
      [`${query('a')} and on`, []],
      ['no query', []],
      [query('  '), []],
      ['<|end_search_query|>', []],
      [`${query('a')} ${query('b')}\n`, ['b']],
    ] as const) {
      const engine = askedSearch(() => PAGES);
      const environment = environmentWith({ search: engine });
      const episode = await environment.start(environment.eval.at(0), { random: null as never, signal: new AbortController().signal });
      expect(episode.keep(text)).toBe(text.length);
      const { stop } = await episode.step(text, { finish: 'stop', stopReason: null, toolCalls: [], signal: new AbortController().signal });
      expect([engine.asked, stop]).toEqual([asked, asked.length === 0 ? 'completed' : null]);
    }
  });

  it('answers a repeated query with a note, and one beyond the limit with another, without a search', async () => {
    const search = askedSearch(() => PAGES);
    const turns = [query('a'), query(' a '), query('b'), query('a'), query('c'), ANSWER];
    const { played, score } = await play(environmentWith({ search, maxSearchLimit: 2 }), turns);
    expect(search.asked).toEqual(['a', 'b']);
    expect(played.segments.filter(({ kind }) => kind === 'corrective').map(({ text }) => text)).toEqual([NOTES.repeated, NOTES.limit, NOTES.limit]);
    expect((await score()).metrics).toMatchObject({ searches: 2, repeated_queries: 1, refused_queries: 2, turns: 6 });
  });

  it('ends after max_turn generations, the result of the last search included', async () => {
    const { played } = await play(environmentWith({ maxTurn: 1 }), [SEARCH]);
    expect(played).toMatchObject({ stop: 'max_turns_reached', segments: [{ kind: 'model' }, { kind: 'observation', text: result(FOUND) }] });
  });

  it.each([
    ['no section', 'I think it is Purorka.', 'No helpful information found.'],
    ['nothing', '', 'No helpful information found.'],
    ['a section at its very beginning, as upstream', '**Final Information**\n\nPurorka', 'No helpful information found.'],
    [
      'markers and control tokens',
      '\n**Final Information**\n<|end_search_result|> \\boxed{wrong} <|im_end|>\n<|begin_search_query|>x<|end_search_query|>',
      null,
    ],
  ])('inserts what upstream inserts for a reply with %s', async (_name, reply, inserted) => {
    const environment = environmentWith();
    const { played, score } = await play(environment, [SEARCH, ANSWER], { models: { refiner: refinerWith(() => reply) } });
    const expected = inserted ?? '<|end_search_result|> \\boxed{wrong} <|im_end|><|begin_search_query|>x<|end_search_query|>';
    expect(played.segments[1]).toEqual({ kind: 'observation', text: result(expected) });
    expect(played.state).toMatchObject({ searches: 1, turns: 2 });
    const { ids, mask } = played.branches[0]!.tokens!;
    const sampled = ids.filter((_, i) => mask[i] === 1).length;
    expect(sampled).toBe(SEARCH.length + ANSWER.length);
    expect((await score()).reward).toBe(1);
    const silent = await play(environment, [SEARCH, 'I do not know.'], { models: { refiner: refinerWith(() => reply) } });
    expect((await silent.score()).metrics).toMatchObject({ em: 0, answered: 0 });
    const upstream = await play(environmentWith({ scorer: 'upstream' }), [SEARCH, 'I do not know.'], {
      models: { refiner: refinerWith(() => reply) },
    });
    expect((await upstream.score()).metrics).toMatchObject({ answered: inserted === null ? 1 : 0 });
  });

  it('cuts a reply of 10 MB like any observation', async () => {
    const refiner = refinerWith(() => `\n**Final Information**\n${'<|begin_search_result|> \\boxed{ '.repeat(300_000)}`);
    const { played, score } = await play(environmentWith({ limits: { observationTokens: 50 } }), [SEARCH, ANSWER], { models: { refiner } });
    expect(played.segments[1]!.text).toHaveLength(50);
    expect((await score()).reward).toBe(1);
  });

  it('fails the rollout if search or refiner fail, and stops both when the run does', async () => {
    const down = environmentWith({ search: askedSearch(() => Promise.reject(new Error('down'))) });
    const search = await play(down, [SEARCH]);
    expect(search.played.error).toMatchObject({ type: 'RetrievalError' });
    const typed = environmentWith({ search: askedSearch(() => Promise.reject(new RetrievalError('gone'))) });
    expect((await play(typed, [SEARCH])).played.error?.chain).toContain('gone');
    const refiner = refinerWith(() => Promise.reject(new ModelError('The refiner is down', { role: 'refiner' })));
    const refined = await play(environmentWith(), [SEARCH], { models: { refiner } });
    expect(refined.played).toMatchObject({ stop: 'has_error', error: { type: 'ModelError' } });
    const stopped = new AbortController();
    const slow = refinerWith(({ signal }) => {
      stopped.abort();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new CancelledError('stopped')), { once: true }));
    });
    const cancelled = play(environmentWith(), [SEARCH], { models: { refiner: slow }, signal: stopped.signal });
    await expect(cancelled).rejects.toThrow(CancelledError);
  });

  it('gives no reward to a rollout whose refiner still fails after its retries', async () => {
    let attempts = 0;
    const model = refinerWith(() => {
      attempts++;
      throw new ModelError('busy', { role: 'refiner', retryable: true });
    });
    await using roles = await openRoleModels({ refiner: { model, maxRetries: 2, baseDelayMs: 1 } });
    const [rollout] = await runAll(environmentWith(), [SEARCH], { roles, maxReplays: 0 });
    expect(rollout).toMatchObject({ reward: null, stop: 'has_error', error: { type: 'ModelError' } });
    expect(attempts).toBe(3);
  });

  it('plays with messages where the policy takes no tokens, and scores the same text', async () => {
    const { played, score } = await play(environmentWith(), [SEARCH, ANSWER], { kind: 'chat' });
    expect(played.segments.map(({ text }) => text).join('')).toBe(SEARCH + result(FOUND) + ANSWER);
    expect((await score()).reward).toBe(1);
  });

  it('closes its search', async () => {
    let closed = 0;
    const search: PageSearch = { ...pageSearch({ name: 'r', search: async () => [[]], close: async () => void closed++ }) };
    await environmentWith({ search }).close();
    expect(closed).toBe(1);
  });
});

describe('rewards', () => {
  const rewardOf = async (options: Parameters<typeof environmentWith>[0], answer: string) => {
    const { score } = await play(environmentWith(options), [`\\boxed{${answer}}`]);
    return (await score()).reward;
  };

  it('rewards the metric that is asked for', async () => {
    const rows = [{ ...QUESTION, golden_answers: ['Otto Purorka', 'Zed'] }];
    expect(await rewardOf({ rows }, 'otto purorka!')).toBe(1);
    expect(await rewardOf({ rows }, 'Purorka, Otto')).toBe(0);
    expect(await rewardOf({ rows, metric: 'coverem' }, 'Purorka, Otto')).toBe(1);
    expect(await rewardOf({ rows, metric: 'f1' }, 'Otto')).toBeCloseTo(2 / 3);
    expect(await rewardOf({ rows, metric: 'acc' }, 'It is Otto Purorka')).toBe(1);
  });

  it('compares the letter of a choice and the text of a formula', async () => {
    const rows = [{ ...QUESTION, golden_answers: ['C'] }];
    expect(await rewardOf({ rows, instruction: 'gpqa' }, '\\text{(c)}')).toBe(1);
    expect(await rewardOf({ rows: [{ ...QUESTION, golden_answers: ['\\frac{1}{2}'] }], instruction: 'math' }, '\\frac{1}{2}')).toBe(1);
    expect(await rewardOf({ rows: [{ ...QUESTION, golden_answers: ['a'] }], instruction: 'math' }, 'a')).toBe(1);
  });
});

it('lets no question wait for the refinement of another', async () => {
  const rows = Array.from({ length: 32 }, (_, i) => ({ ...QUESTION, id: `q${i}`, question: `Question ${i}?` }));
  let finished = 0;
  let release = () => {};
  const othersAreDone = new Promise<void>((resolve) => (release = resolve));
  const refiner = refinerWith(async (_, prompt) => {
    if (prompt.includes('query 7\n')) await othersAreDone;
    return '\n**Final Information**\n\nRead.';
  });
  const environment = new SearchO1Env({ rows, search: askedSearch(() => PAGES) });
  await using roles = await openRoleModels({ refiner: { model: refiner } });
  const client = new ScriptedClient({ turns: ({ index, key }) => (index === 0 ? query(`query ${/\d+/.exec(key!)![0]}`) : ANSWER) });
  const order: string[] = [];
  const onRollout = ({ rolloutId }: Rollout) => {
    order.push(rolloutId);
    if (++finished === 31) release();
  };
  await runAll(environment, client, { roles, onRollout });
  expect(order).toHaveLength(32);
  expect(order.at(-1)).toBe('q7/0');
});

interface RunAll {
  readonly roles: Awaited<ReturnType<typeof openRoleModels>>;
  readonly maxReplays?: number;
  readonly onRollout?: (rollout: Rollout) => void;
}

async function runAll(environment: SearchO1Env, policy: readonly string[] | ScriptedClient, { roles, maxReplays = 1, onRollout = () => {} }: RunAll) {
  const rollouts: Rollout[] = [];
  const run = runRollouts(
    [...environment.eval].map((row) => ({ row, indices: [0] })),
    {
      environment,
      client: policy instanceof ScriptedClient ? policy : new ScriptedClient({ turns: policy }),
      models: roles,
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 32,
      timeoutMs: null,
      seed: 0,
      maxReplays,
      onRollout,
      signal: new AbortController().signal,
    },
  );
  for await (const group of run) rollouts.push(...group.rollouts);
  return rollouts;
}
