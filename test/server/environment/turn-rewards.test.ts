/** What an environment says that turns are worth, on every wire of `vf-serve environment` and `vf-serve verifiers`. */
import { describe, expect, it } from 'vitest';
import { run, serveWire } from '../verifiers/wire-client.ts';
import { type Answer, environmentClient, TalkEnv } from './environment-client.ts';
import { openEnvClient } from './openenv-client.ts';

/** The first and the third turn are worth something by themselves; the reward of the rollout is its number of turns. */
const rewarding = () => new TalkEnv({ turnRewards: { 1: 0.5, 3: -2 } });
const WORDS = ['hello;', 'hi;', 'done;'];

async function playedByMessages(environment: TalkEnv): Promise<Answer[]> {
  await using server = await environmentClient(environment);
  const answers = await server.begin(['row-0'], 'chat');
  for (const text of WORDS) {
    const { episode_id, turn } = answers.at(-1);
    answers.push(...(await server.step({ episode_id, turn, text })));
  }
  return answers;
}

describe('the reward of a turn', () => {
  it('is in the answer to its step, the last one included, and in the rollout, apart from its reward', async () => {
    const answers = await playedByMessages(rewarding());
    expect(answers.map(({ turn_reward }) => turn_reward)).toEqual([undefined, 0.5, undefined, -2]);
    expect(answers.at(-1).rollout).toMatchObject({ reward: 3, turn_rewards: [0.5, null, -2] });
  });

  it('is absent where the environment rewards no turn', async () => {
    const answers = await playedByMessages(new TalkEnv());
    expect(answers.filter((answer) => 'turn_reward' in answer)).toEqual([]);
    expect('turn_rewards' in answers.at(-1).rollout).toBe(false);
  });

  it('comes by token ids too, and again to a request that is sent again', async () => {
    await using server = await environmentClient(rewarding());
    const [first] = await server.begin(['row-0']);
    const sample = await server.sample(first, WORDS[0]!);
    const [second] = await server.step(sample);
    expect(second).toMatchObject({ turn: 1, turn_reward: 0.5 });
    expect(await server.step(sample)).toEqual([second]);
    const [third] = await server.step(await server.sample(second, WORDS[1]!));
    expect('turn_reward' in third).toBe(false);
    const [last] = await server.step(await server.sample(third, WORDS[2]!));
    expect(last).toMatchObject({ turn_reward: -2, rollout: { turn_rewards: [0.5, null, -2] } });
    expect('turn_tokens' in last.rollout).toBe(false);
  });

  it('is the reward of its step in OpenEnv, and the last step has that of the rollout too', async () => {
    const rewardsOf = async (environment: TalkEnv) => {
      await using server = await environmentClient(environment);
      await using client = await openEnvClient(server.url);
      const begun = await client.reset();
      const rewards = [begun.data.reward];
      for (const text of WORDS) rewards.push((await client.step(text)).data.reward);
      const [, opened] = await server.post('/reset', {});
      const [, stepped] = await server.post('/step', { action: { text: 'hello;' }, episode_id: opened.metadata.episode_id });
      return { socket: rewards, http: stepped.reward };
    };
    expect(await rewardsOf(rewarding())).toEqual({ socket: [null, 0.5, null, 1], http: 0.5 });
    expect(await rewardsOf(new TalkEnv())).toEqual({ socket: [null, null, null, 3], http: null });
  });

  it('is in the info of a trace of verifiers', async () => {
    await using served = await serveWire({ environment: new TalkEnv({ turnRewards: { 1: 0.25 } }) });
    const { deltas } = await served.client.ask('run', run({ task_data: { idx: 0 } }));
    const [first, ...others] = deltas[0]!.set.info['turn_rewards'] as unknown[];
    expect(first).toBe(0.25);
    expect(others.every((reward) => reward === null)).toBe(true);
  });
});
