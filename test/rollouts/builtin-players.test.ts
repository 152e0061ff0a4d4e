import {
  ConfigError,
  Dataset,
  type Environment,
  exactMatchJudge,
  JudgeRubric,
  loadEnvironment,
  type RoleDeclarations,
  type Row,
  scoreEpisode,
  scriptedModel,
  SingleTurnEnv,
  startEpisode,
} from 'vf-search';
import { openRoleModels, runRollouts, type RunOptions } from 'vf-search/rollouts';
import { describe, expect, it } from 'vitest';
import { ExtractiveClient } from '../../src/clients/extractive.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { type RewardContext, Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';

const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: 'Capital of Peru?' }], answer: 'Lima' };
const judge = { about: 'scores the answer', default: 'builtin', builtin: exactMatchJudge() } as const;
const judged = (roles: RoleDeclarations = { judge }) =>
  new SingleTurnEnv({ id: 'judged', eval: new Dataset('one', [row]), rubric: new JudgeRubric(), roles });

async function play(environment: Environment, options: Partial<RunOptions<Row>> = {}): Promise<Rollout[]> {
  const rollouts: Rollout[] = [];
  const run = runRollouts([{ row: environment.eval.at(0), indices: [0] }], {
    environment,
    client: new ScriptedClient({ kind: 'chat', turns: ['Lima'] }),
    sampling: { temperature: 0, topP: 1 },
    maxTokens: null,
    maxConcurrent: 1,
    timeoutMs: null,
    seed: 0,
    signal: new AbortController().signal,
    ...options,
  });
  for await (const group of run) rollouts.push(...group.rollouts);
  return rollouts;
}

describe('roles with a builtin model in a plain program', () => {
  it('are played by it, and its calls are recorded', async () => {
    const [rollout] = await play(judged());
    expect(rollout).toMatchObject({ reward: 1, error: null, asked: [{ role: 'judge', model: 'exact-match', waitMs: 0, attempts: 1 }] });
  });

  it('are played by the model that the program gives; the other roles keep theirs, and all calls are in order', async () => {
    const helper = { about: 'helps', default: 'builtin', builtin: scriptedModel({ name: 'own-helper', replies: () => 'yes' }) } as const;
    const asksBoth = async ({ models, signal }: RewardContext) => {
      const texts: string[] = [];
      for (const role of ['helper', 'judge', 'helper'])
        texts.push((await models[role]!.generate([{ role: 'user', content: role }], { maxTokens: 8, signal })).text);
      return Number(texts.join() === 'yes,mine,yes');
    };
    const roles = { judge, helper };
    const environment = new SingleTurnEnv({ id: 'both', eval: new Dataset('one', [row]), rubric: new Rubric({ funcs: [asksBoth] }), roles });
    await using models = await openRoleModels({ judge: { model: scriptedModel({ name: 'given', replies: () => 'mine' }) } });
    const [rollout] = await play(environment, { models });
    expect(rollout).toMatchObject({ reward: 1, error: null });
    expect(rollout!.asked.map(({ role, model }) => [role, model])).toEqual([
      ['helper', 'own-helper'],
      ['judge', 'given'],
      ['helper', 'own-helper'],
    ]);
  });

  it.each([
    [
      null,
      /^No model plays the role judge of judged, which scores the answer\. Pass models: await openRoleModels\(\{ judge: \{ model: MODEL \} \}\)\.$/,
    ],
    ['policy', /^No model plays the role judge of judged, .*\{ judge: \{ model: clientModel\(\(\) => client/],
  ] as const)('end the run before the first rollout where nothing plays them {default %s}', async (player, message) => {
    const client = new ScriptedClient({
      kind: 'chat',
      turns: () => {
        throw new Error('sampled');
      },
    });
    const environment = judged({ judge: { about: judge.about, default: player } });
    await expect(play(environment, { client })).rejects.toThrow(message);
    await expect(play(environment, { client })).rejects.toBeInstanceOf(ConfigError);
  });

  it('are played in episodes that a harness drives and scores', async () => {
    const environment = judged();
    await using episode = await startEpisode(environment, environment.eval.at(0));
    await episode.step('Lima');
    expect(await scoreEpisode(environment, environment.eval.at(0), episode)).toMatchObject({ reward: 1 });
    const given = scriptedModel({ replies: () => '{"reason": "no", "score": 0}' });
    expect(await scoreEpisode(environment, environment.eval.at(0), episode, { models: { judge: given } })).toMatchObject({ reward: 0 });
  });

  it.each(['visual-rag', 'search-o1'])('are played in an environment of this package {%s}', async (id) => {
    const environment = await loadEnvironment(id, id === 'visual-rag' ? { observations: 'ocr' } : {});
    try {
      const client = new ExtractiveClient({ seed: 0 });
      const [rollout] = await play(environment, { client: environment.baseline === undefined ? client : baselineClient(environment) });
      expect(rollout).toMatchObject({ error: null });
      expect(rollout!.reward).not.toBeNull();
      expect(new Set(rollout!.asked.map(({ role }) => role))).toEqual(new Set(Object.keys(environment.roles!)));
    } finally {
      await environment.close();
    }
  });
});

/** The environment's own baseline as a scripted chat. */
function baselineClient({ baseline }: Environment): ScriptedClient {
  return new ScriptedClient({ kind: 'chat', turns: ({ messages }) => baseline!.reply(messages) });
}
