import { setImmediate as nextTurn } from 'node:timers/promises';
import { MultiTurnEnv, Dataset, type RewardContext, reward, type Row, Rubric } from 'vf-search';
import { judgeBy, type Model } from 'vf-search/environment-kit';
import { openRoleModels, type Rollout, runRollouts } from 'vf-search/rollouts';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { inOrder, ScoredDeck } from '../../scripts/bench/scored-deck.ts';

describe('scoring while episodes run', () => {
  it.each([
    { slots: 16, judging: 16, episodeMs: (share: number) => 20 * share, judgeMs: (share: number) => 20 * share },
    { slots: 3, judging: 1, episodeMs: () => 0, judgeMs: (share: number) => 5 * share },
    { slots: 8, judging: 2, episodeMs: (share: number) => 30 * share, judgeMs: () => 0 },
  ])('gives every number that playing all and scoring then gives, bit for bit {slots $slots, judging $judging}', async (times) => {
    await using deck = await ScoredDeck.open({ groups: 8, members: 4, ...times });
    const batch = inOrder(await deck.batch());
    expect(new Set(batch.map(({ reward: score }) => score)).size).toBeGreaterThan(5);
    expect(batch.every(({ state }) => 'generated_answer' in state)).toBe(true);
    for (const more of [{}, { maxScoring: 1 }]) expect(inOrder(await deck.streamed(more))).toStrictEqual(batch);
  });
});

interface Answered extends Row {
  readonly answer: string;
}

/** The finish hook asks the model of the role `generator`; the reward is the judge's score. */
class HookedEnv extends MultiTurnEnv<Answered> {
  readonly finished: string[] = [];

  constructor(rows: number) {
    const builtin = judgeBy(() => ({ score: 0.5, reason: '' }), 'half');
    super({
      id: 'hooked',
      eval: new Dataset(
        'rows',
        Array.from({ length: rows }, (_, i): Answered => ({ exampleId: i, prompt: [{ role: 'user', content: `q${i}` }], answer: `a${i}` })),
      ),
      rubric: new Rubric<Answered>({ funcs: [reward(({ state }) => (state['answer'] as string).length / 10, { name: 'length' })] }),
      maxTurns: 1,
      turnFormat: 'chat',
      roles: { generator: { about: 'answers', default: 'builtin', builtin } },
    });
  }

  protected setupState() {
    return { turns: 0 };
  }

  protected envResponse() {
    return Promise.resolve({ done: true });
  }

  async finish({ models, row, signal }: RewardContext<Answered>): Promise<Readonly<Record<string, unknown>>> {
    const { text } = await models['generator']!.generate([{ role: 'user', content: String(row.exampleId) }], { maxTokens: 4, signal });
    this.finished.push(String(row.exampleId));
    return { answer: text };
  }
}

/** A model that answers a row when the test says so, whether the caller still waits or not. */
function heldModel(isHeld: (row: string) => boolean): { readonly model: Model; readonly asked: Set<string>; readonly release: () => void } {
  const asked = new Set<string>();
  const gate = Promise.withResolvers<void>();
  const model: Model = {
    name: 'held',
    async generate([message]) {
      const row = message!.content as string;
      asked.add(row);
      if (isHeld(row)) await gate.promise;
      return { text: `answer ${row}`, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null };
    },
  };
  return { model, asked, release: gate.resolve };
}

const options = { sampling: { temperature: 1, topP: 1 }, maxTokens: null, maxConcurrent: 8, timeoutMs: null, seed: 0 } as const;
const groupsOf = (environment: HookedEnv) => [...environment.eval].map((row) => ({ row, indices: [0] }));

describe('a finish hook', () => {
  it('gives nothing to a step that was abandoned: its late answers are dropped, and the next step has its own', async () => {
    const environment = new HookedEnv(4);
    const { model, asked, release } = heldModel((row) => row !== '0');
    await using models = await openRoleModels({ generator: { model } });
    const seen: Rollout[] = [];
    const client = new ScriptedClient({ tokenizer: 'code-points', turns: ['done'] });
    const play = () =>
      runRollouts(groupsOf(environment), {
        ...options,
        environment,
        client,
        models,
        signal: new AbortController().signal,
        onRollout: (rollout) => void seen.push(rollout),
      });
    for await (const { groupId } of play()) {
      expect(groupId).toBe('0');
      while (asked.size < 4) await nextTurn();
      break;
    }
    expect(seen.map(({ rolloutId }) => rolloutId)).toEqual(['0/0']);
    expect(environment.finished).toEqual(['0']);
    release();
    for (let i = 0; i < 5; i++) await nextTurn();
    // They came, to nobody.
    expect([seen.length, environment.finished]).toEqual([1, ['0']]);
    expect(models.stats.get('generator')).toMatchObject({ calls: 1 });
    for await (const _ of play());
    const own = new Map(seen.slice(1).map(({ rolloutId, reward: score }) => [rolloutId, score]));
    expect(own).toEqual(new Map([0, 1, 2, 3].map((i) => [`${i}/0`, 0.8])));
  });

  it('waits for a model as long as the role may take: a member whose call never ends fails alone, with the deadline of the role', async () => {
    const environment = new HookedEnv(3);
    const { model, release } = heldModel((row) => row === '1');
    await using models = await openRoleModels({ generator: { model, timeoutMs: 200, maxRetries: 0 } });
    const seen: Rollout[] = [];
    const run = runRollouts(groupsOf(environment), {
      ...options,
      environment,
      client: new ScriptedClient({ tokenizer: 'code-points', turns: ['done'] }),
      models,
      scoringTimeoutMs: 20,
      timeoutNames: { rollout: 'rollouts.timeout_s', scoring: 'rollouts.scoring_timeout_s' },
      signal: new AbortController().signal,
    });
    for await (const { rollouts } of run) seen.push(...rollouts);
    const [first, late, last] = seen.toSorted((a, b) => (a.rolloutId < b.rolloutId ? -1 : 1));
    expect([first!.reward, last!.reward]).toEqual([0.8, 0.8]);
    expect(late).toMatchObject({ reward: null, error: { type: 'ModelError', phase: 'scoring', source: 'model' } });
    release();
    for (let i = 0; i < 5; i++) await nextTurn();
    expect([late!.reward, late!.asked, environment.finished.toSorted()]).toEqual([null, [], ['0', '2']]);
    expect(late!.error!.message).toMatch(/There was no answer within 200 ms/);
  });

  it('delays a step by the deadline of scoring at most with its own work, and says what it waited for', async () => {
    class StuckEnv extends HookedEnv {
      override async finish(context: RewardContext<Answered>): Promise<Readonly<Record<string, unknown>>> {
        const added = await super.finish(context);
        return context.row.exampleId === 1 ? new Promise<never>(() => {}) : added;
      }
    }
    const environment = new StuckEnv(3);
    await using models = await openRoleModels({ generator: { model: heldModel(() => false).model } });
    const seen: Rollout[] = [];
    const timing = { scoringTimeoutMs: 100, timeoutNames: { rollout: 'rollouts.timeout_s', scoring: 'rollouts.scoring_timeout_s' } };
    const client = new ScriptedClient({ tokenizer: 'code-points', turns: ['done'] });
    const run = runRollouts(groupsOf(environment), { ...options, environment, client, models, ...timing, signal: new AbortController().signal });
    for await (const { rollouts } of run) seen.push(...rollouts);
    const errors = new Map(seen.map(({ rolloutId, error }) => [rolloutId, error]));
    expect([errors.get('0/0'), errors.get('2/0')]).toEqual([null, null]);
    expect(errors.get('1/0')).toMatchObject({ type: 'TimeoutError', phase: 'scoring' });
    expect(errors.get('1/0')!.message).toMatch(/the finish hook of the environment was at work.*rollouts\.scoring_timeout_s/);
  });
});
