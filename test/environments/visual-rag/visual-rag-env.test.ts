import { ModelError, Random, RetrievalError, scriptedModel } from 'vf-search';
import { FORCED_COMPLETION, INVALID_ACTION, invalidBox, loadEnvironment, NO_PAGE, PageSource, VisualRagEnv } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';
import { NO_HITS } from '../../../environments/visual-rag/texts.ts';
import { RunImages } from '../../../src/files/run-images.ts';
import { codePointTokenizer } from '../../../src/clients/text-tokenizer.ts';
import { box, COMPLETE, environmentWith, finds, observations, PAGES, playAll, playOne, rowOf, search, think } from './fixtures.ts';

const PAGE_1 = 'Page, 600 x 400 pixels:\n[50, 50, 180, 70] Revenue ?\n[50, 300, 180, 320] Staff ?';
/** The upper left quarter of the page, as large as the whole page was shown. */
const QUARTER = 'Crop, 600 x 400 pixels:\n[100, 100, 360, 140] Revenue 100';

const EPISODE = { random: Random.fromSeed(0), models: {}, signal: new AbortController().signal };
const TURN = { finish: 'stop', stopReason: null, toolCalls: [], signal: new AbortController().signal } as const;

describe('VisualRagEnv', () => {
  it('plays search, bad box, good box, a search whose first hit was shown, completion: observations, evidence, masks and NDCG', async () => {
    const environment = environmentWith({ retriever: finds(['report_1', 'report_2']) });
    const turns = [search('revenue'), box(10, 10, 5, 5), box(0, 0, 300, 200), search('again'), COMPLETE];
    const rollout = await playOne(environment, turns);
    expect(observations(rollout)).toEqual([
      PAGE_1,
      invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels'),
      QUARTER,
      PAGE_1,
    ]);
    expect(rollout.stop).toBe('completed');
    expect(rollout.state).toMatchObject({
      turns: 5,
      searches: 2,
      crops: 1,
      invalid_actions: 1,
      completed: true,
      forced: false,
      pages: ['report_1', 'report_2'],
      evidence: [
        { page: 'report_1', area: null },
        { page: 'report_1', area: [0, 0, 600, 400] },
        { page: 'report_2', area: null },
      ],
    });
    const { ids, mask, promptLength } = rollout.branches[0]!.tokens!;
    const trained = codePointTokenizer.decode(ids.filter((_, i) => i >= promptLength && mask[i] === 1));
    expect(trained).toBe(turns.join(''));
    expect(rollout.metrics).toMatchObject({ ndcg: 1, judge: 1, format_pass: 1, pages_read: 2 });
    expect(rollout.reward).toBe(1);
  });

  it.each([
    [{ judge: 0.8, ndcg: 0.2, format: 0 }, 'none', 0.8 * 1 + 0.2 * 0.6309297535714575],
    [{ judge: 1, ndcg: 0, format: 0 }, 'none', 1],
    [{ judge: 0.5, ndcg: 0.25, format: 0.25 }, 'none', 0.5 + 0.25 * 0.6309297535714575 + 0.25],
    [{ judge: 0.8, ndcg: 0.2, format: 0 }, 'ddai', 0],
  ] as const)(
    'weighs judge, NDCG and format by the coefficients, and gives 0 where the gate does not pass {%o, gate %s}',
    async (coefficients, formatGate, expected) => {
      // The golden page comes second, and one turn has no thought.
      const environment = environmentWith({ coefficients, formatGate, retriever: finds((query) => (query === 'a' ? ['other_1'] : ['report_1'])) });
      const turns = ['<search>a</search>', search('b'), box(0, 0, 300, 200), COMPLETE];
      const rollout = await playOne(environment, turns);
      expect(rollout.reward).toBeCloseTo(expected, 12);
      const sound = await playOne(environment, [search('a'), ...turns.slice(1)]);
      expect(sound.reward).toBeCloseTo(formatGate === 'ddai' ? 0.8 + 0.2 * 0.6309297535714575 : expected, 12);
    },
  );

  it('rewards phase 1 with 0.1 + 0.9 NDCG where the format passes, and asks nobody', async () => {
    const environment = environmentWith({ phase: 1, retriever: finds((query) => (query === 'a' ? ['other_1'] : ['report_1'])) });
    const failing = {
      generator: scriptedModel({
        name: 'g',
        replies: () => {
          throw new Error('asked');
        },
      }),
    };
    const rollout = await playOne(environment, [search('a'), search('b'), COMPLETE], { models: failing });
    expect(rollout.reward).toBeCloseTo(0.1 + 0.9 * 0.6309297535714575, 12);
    expect(rollout.asked).toEqual([]);
    expect((await playOne(environment, [search('a'), think('nothing'), COMPLETE])).reward).toBe(0);
  });

  it('reads the value only from a crop that enlarges it enough', async () => {
    const answer = async (...turns: string[]) =>
      (await playOne(environmentWith(), [search('revenue'), ...turns, COMPLETE])).state['generated_answer'];
    expect(await answer()).not.toBe('100');
    expect(await answer(box(0, 0, 600, 400))).not.toBe('100');
    expect(await answer(box(0, 0, 300, 200))).toBe('100');
    expect(await answer(box(0, 250, 300, 400))).not.toBe('100');
  });

  it('completes an episode that has no turn left; the text is the environment’s, mask 0, and scored or paid with 0', async () => {
    const turns = [search('a'), box(0, 0, 300, 200)];
    for (const [forcedStop, reward] of [
      ['score', 1],
      ['zero', 0],
    ] as const) {
      const rollout = await playOne(environmentWith({ maxTurns: 3, forcedStop, formatGate: 'ddai' }), turns);
      expect(rollout.stop).toBe('max_turns_reached');
      expect(rollout.segments.at(-1)).toEqual({ kind: 'corrective', text: FORCED_COMPLETION });
      expect(rollout.state).toMatchObject({ forced: true, completed: false });
      expect(rollout.metrics).toMatchObject({ forced_stop: 1 });
      const { ids, mask } = rollout.branches[0]!.tokens!;
      expect(codePointTokenizer.decode(ids.filter((_, i) => mask[i] === 1))).toBe(turns.join(''));
      // The gate sees the forced turn only where it is scored.
      expect(rollout.reward).toBe(reward);
    }
  });

  it('shows each page once while a search finds others, then its first hit again, which is not collected twice', async () => {
    const rollout = await playOne(environmentWith({ retriever: finds(['report_1', 'other_1']) }), [search('a'), search('a'), search('a'), COMPLETE]);
    expect(rollout.state).toMatchObject({ pages: ['report_1', 'other_1'], searches: 3 });
    expect(rollout.state['evidence']).toHaveLength(2);
    expect(observations(rollout)[2]).toBe(observations(rollout)[0]);
  });

  it.each([
    [[box(0, 0, 10, 10)], NO_PAGE],
    [['<think>t</think>'], INVALID_ACTION],
    [[''], INVALID_ACTION],
    [['<think>t</think><sear'], INVALID_ACTION],
    [[search('a'), box(5, 5, 5, 9)], invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels')],
    [[search('a'), box(9, 9, 5, 5)], invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels')],
    [[search('a'), box(700, 500, 800, 600)], invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels')],
    [[search('a'), box(0, 0, 'Infinity', 10)], invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels')],
    [[search('a'), box('NaN', 0, 10, 10)], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box(`1${'0'.repeat(400)}`, 0, 10, 10)], invalidBox('it leaves nothing of the page, which was shown with 600 x 400 pixels')],
    [[search('a'), box(-1, 0, 10, 10)], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box(1, 2, 3)], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box(1, 2, 3, 4, 5)], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box('[1, 2, 3, 4]')], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box('"1"', 2, 3, 4)], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), think('<bbox>left half</bbox>')], invalidBox('it must be a list of four numbers that are at least 0')],
    [[search('a'), box(0, 0, 1, 400)], invalidBox('one side of it is more than 200 times the other')],
  ])('corrects an action that cannot be done, and the turn counts {%j}', async (turns, text) => {
    const rollout = await playOne(environmentWith(), [...turns, COMPLETE]);
    expect(observations(rollout).at(-1)).toBe(text);
    expect(rollout.segments.at(-2)!.kind).toBe('corrective');
    expect(rollout.state).toMatchObject({ turns: turns.length + 1, invalid_actions: 1, crops: 0 });
  });

  it('takes booleans for 1 and 0, as Python does', async () => {
    const rollout = await playOne(environmentWith(), [search('a'), box('false', 'false', 'true', 'true'), COMPLETE]);
    expect(rollout.state).toMatchObject({ crops: 1, evidence: [{ area: null }, { area: [0, 0, 2, 2] }] });
  });

  it('scales a box by the page as it was last shown, also after a crop', async () => {
    const rollout = await playOne(environmentWith(), [search('a'), box(0, 0, 300, 200), box(0, 200, 300, 400), COMPLETE]);
    expect(rollout.state['evidence']).toMatchObject([{ area: null }, { area: [0, 0, 600, 400] }, { area: [0, 400, 600, 800] }]);
  });

  it('acts on the first of two actions, in a thought too', async () => {
    const rollout = await playOne(environmentWith(), ['<think><search>a</search></think><search_complete>true</search_complete>', COMPLETE]);
    expect(rollout.state).toMatchObject({ searches: 1, turns: 2 });
    expect(rollout.metrics).toMatchObject({ format_pass: 0 });
  });

  it('ends at a completion that is not true, which is not a completed search', async () => {
    const rollout = await playOne(environmentWith(), [think('<search_complete>no</search_complete>')]);
    expect(rollout).toMatchObject({ stop: 'completed', state: { completed: false, searches: 0 } });
    expect(rollout.metrics).toMatchObject({ zero_search: 1, ndcg: 0 });
  });

  it('reads a box of 1 MB and a query of 1 MB', async () => {
    const asked: string[] = [];
    const environment = environmentWith({ retriever: finds((query) => (asked.push(query), ['report_1'])) });
    await using episode = await environment.start(environment.eval.at(0), EPISODE);
    await episode.step(search('x'.repeat(1e6)), TURN);
    expect(asked[0]).toHaveLength(1e6);
    for (const text of ['['.repeat(1e6), `[${'1, '.repeat(3e5)}1]`, '9'.repeat(1e6), `[0, 0, 1, ${'9'.repeat(1e6)}]`]) {
      const { observation } = await episode.step(think(`<bbox>${text}</bbox>`), TURN);
      expect((observation as { text: string }).text).toContain('Your previous bbox is invalid.');
    }
  });

  it('says so where a search finds nothing', async () => {
    const rollout = await playOne(environmentWith({ retriever: finds([]) }), [search('a'), COMPLETE]);
    expect(observations(rollout)).toEqual([NO_HITS]);
    expect(rollout.state).toMatchObject({ pages: [], searches: 1 });
  });

  it('fails, without a reward, where the retriever fails or finds a page that nobody has', async () => {
    const broken = { name: 'broken', search: () => Promise.reject(new Error('no route')), close: async () => {} };
    for (const [retriever, text] of [
      [broken, 'The retriever broken failed: no route'],
      [finds(['../../etc/passwd']), 'A search found the page "../../etc/passwd", which the data set does not have.'],
    ] as const) {
      const rollout = await playOne(environmentWith({ retriever }), [search('a'), COMPLETE]);
      expect(rollout).toMatchObject({
        reward: null,
        stop: 'has_error',
        error: { type: RetrievalError.name, message: expect.stringContaining(text) },
      });
    }
  });

  it('gives the generator the newest crops first, as many as it takes, or upstream’s order', async () => {
    const turns = [search('a'), box(0, 0, 300, 200), box(0, 200, 300, 400), search('a'), COMPLETE];
    const seen = async (evidence: 'newest' | 'upstream', maxImages: number) => {
      let content: unknown;
      const generator = scriptedModel({ name: 'g', replies: ([, message]) => ((content = message!.content), '<answer>100</answer>') });
      const rollout = await playOne(environmentWith({ evidence, maxImages }), turns, { models: { generator } });
      expect(rollout.state['generated_answer']).toBe('100');
      return String(content);
    };
    expect(await seen('newest', 2)).toBe('Evidence 1:\nStaff 7\n\nEvidence 2:\nRevenue 100\n\nQuestion: What was the revenue?');
    expect(await seen('upstream', 2)).toBe('Evidence 1:\nRevenue ?\nStaff ?\n\nEvidence 2:\nRevenue ?\nStaff ?\n\nQuestion: What was the revenue?');
  });

  it('has no reward where the generator fails, and does not ask the judge', async () => {
    const generator = scriptedModel({
      name: 'g',
      replies: () => {
        throw new ModelError('down', { role: 'generator', reason: 'failed' });
      },
    });
    const rollout = await playOne(environmentWith(), [search('a'), COMPLETE], { models: { generator } });
    expect(rollout).toMatchObject({ reward: null, error: { type: 'ModelError' } });
    expect(rollout.asked.filter(({ role }) => role === 'judge')).toEqual([]);
  });

  it('shows the generator every picture once, however often it was cut out, and asks nobody about an episode that is worth 0', async () => {
    let asked = 0;
    let content: unknown;
    const generator = scriptedModel({ name: 'g', replies: ([, message]) => ((asked += 1), (content = message!.content), '100') });
    const again = [search('a'), box(0, 0, 300, 200), box(0, 200, 300, 400), box(0, 0, 300, 200)];
    await playOne(environmentWith({ maxImages: 2 }), [...again, COMPLETE], { models: { generator } });
    expect(content).toBe('Evidence 1:\nRevenue 100\n\nEvidence 2:\nStaff 7\n\nQuestion: What was the revenue?');
    const forced = await playOne(environmentWith({ maxTurns: 3, forcedStop: 'zero' }), again.slice(0, 2), { models: { generator } });
    expect(forced).toMatchObject({ reward: 0, state: { forced: true, generated_answer: null }, asked: [] });
    expect(asked).toBe(1);
  });

  it('refuses to train on pictures that the server would resize', async () => {
    const images = new RunImages();
    const environment = await loadEnvironment({ observations: 'image', align: 28, data_limit: 1 }, { purpose: 'training', images });
    await using episode = await environment.start(environment.eval.at(0), { ...EPISODE, imageSizes: { unit: 32, minPixels: 1024, maxPixels: 1e7 } });
    await expect(episode.step(search('report'), TURN)).rejects.toThrow(
      /^align 28 shows pictures of \d+ × \d+ pixels, which the policy server resizes: its unit is 32\. Leave align out to train\.$/,
    );
    await environment.close();
  });

  it('counts where judge and NDCG disagree', async () => {
    const right = { generator: scriptedModel({ name: 'g', replies: () => '100' }) };
    const wrong = { generator: scriptedModel({ name: 'g', replies: () => '999' }) };
    const metrics = async (results: readonly string[], models: typeof right) =>
      (await playOne(environmentWith({ retriever: finds(results) }), [search('a'), COMPLETE], { models })).metrics;
    expect(await metrics(['report_2'], right)).toMatchObject({ right_from_same_document: 1, right_unsupported: 0, wrong_with_golden_pages: 0 });
    expect(await metrics(['other_1'], right)).toMatchObject({ right_from_same_document: 0, right_unsupported: 1 });
    expect(await metrics(['report_1'], wrong)).toMatchObject({ wrong_with_golden_pages: 1, right_unsupported: 0 });
  });

  it('scores groups in the same way, whichever episode ends first', async () => {
    const environment = environmentWith({ retriever: finds(['report_1']) });
    const turns = ({ index, key }: { index: number; key: string | null }) =>
      [search(key ?? ''), Number(key?.slice(-1)) % 2 === 0 ? box(0, 0, 300, 200) : box(0, 0, 600, 400), COMPLETE][index]!;
    const rollouts = await playAll(environment, turns, { rollouts: 8 });
    expect(rollouts.map(({ reward }) => reward!.toFixed(2))).toEqual(['1.00', '0.20', '1.00', '0.20', '1.00', '0.20', '1.00', '0.20']);
  });

  it('measures NDCG by pages or by documents', async () => {
    const ndcg = async (ndcgLevel: 'page' | 'document') =>
      (await playOne(environmentWith({ ndcgLevel, retriever: finds(['report_2']) }), [search('a'), COMPLETE])).metrics['ndcg'];
    expect(await ndcg('page')).toBe(0);
    expect(await ndcg('document')).toBe(1);
  });

  it('refuses observations by image without pictures, and pages that are nothing', () => {
    expect(() => environmentWith({ observations: 'image' })).toThrow('Observations by image need pictures of the pages and a store');
    expect(() => new PageSource({})).toThrow('Pages need a word sidecar, pictures, or both');
  });

  it('lets the server round sizes only with align 0: the policy’s own unit is the default, 28 where it is unknown', async () => {
    const shown = async (align: number | null, imageSizes: { unit: number; minPixels: number; maxPixels: number } | null) => {
      const environment = environmentWith({ align });
      const row = environment.eval.at(0);
      await using episode = await environment.start(row, { random: null as never, models: {}, imageSizes, signal: new AbortController().signal });
      const { observation } = await episode.step(search('a'), {
        finish: 'stop',
        stopReason: null,
        toolCalls: [],
        signal: new AbortController().signal,
      });
      return /\d+ x \d+/.exec((observation as { text: string }).text)![0];
    };
    const wide = { minPixels: 3136, maxPixels: 1e7 };
    expect(await shown(null, null)).toBe('588 x 392');
    expect(await shown(null, { unit: 32, ...wide })).toBe('608 x 416');
    expect(await shown(0, { unit: 32, ...wide })).toBe('600 x 400');
    expect(await shown(null, { unit: 32, minPixels: 3136, maxPixels: 65_536 })).toBe('288 x 192');
  });

  it('is an environment with names for rows of its own', () => {
    expect(environmentWith({ rows: [rowOf({ id: 7 })] })).toBeInstanceOf(VisualRagEnv);
    expect([...PAGES.keys()]).toHaveLength(3);
  });
});
