/** Requests that are sent again are answered from the record, but not without end. */
import { describe, expect, it } from 'vitest';
import { figures } from '../../src/evaluate/summary.ts';
import { recordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import { resultRecord } from '../../src/evaluate/result-record.ts';
import { redactionOf } from '../../src/evaluate/redaction.ts';
import { repeatsText, refusedText } from '../../src/reports/evaluation/requests-text.ts';
import { MOST_REPEATS } from '../../src/rollouts/agent-requests.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { agent, asked, echo, play, say } from './played-agent.ts';

const recorded = (rollout: Rollout) =>
  recordedRollout(resultRecord(rollout, { seed: 0, metricNames: [], stateColumns: [], redaction: redactionOf([]) }));

describe('an agent that sends the same request again', () => {
  it('gets the first answer eight times, and is then stopped with a failure instead of going on until its deadline', async () => {
    const answers: string[] = [];
    let refusal: unknown = null;
    const looping = agent(async ({ policy, signal }) => {
      for (;;)
        try {
          answers.push(await say(policy, asked('Colour?'), { abortSignal: signal }));
        } catch (error) {
          refusal ??= error;
          if (signal.aborted) throw error;
        }
    });
    const rollout = await play(looping, echo);
    expect(rollout).toMatchObject({
      reward: null,
      stop: 'has_error',
      repeats: MOST_REPEATS,
      turns: 1,
      error: { type: 'AgentError', reason: 'repeats' },
    });
    expect(rollout.error!.message).toContain('the same request came 9 times');
    expect(String(refusal)).toContain('give each request another seed or last message');
    expect(new Set(answers)).toEqual(new Set(['0: Colour?.']));
    expect(answers).toHaveLength(1 + MOST_REPEATS);
  });

  it('counts as it says where failures are scored', async () => {
    const looping = agent(
      async ({ policy }) => {
        for (;;) await say(policy, asked('Colour?'));
      },
      { failures: 'score' },
    );
    const rollout = await play(looping, echo);
    expect(rollout).toMatchObject({ reward: 0, error: null, stop: 'agent_failed' });
    expect(rollout.state['failure']).toContain('stopped in a loop');
  });

  it('may repeat a question all through a rollout that goes on', async () => {
    const polling = agent(async ({ policy }) => {
      for (let turn = 0; turn < 2 * MOST_REPEATS; turn++) {
        await say(policy, asked('Are you there?'));
        await say(policy, asked(`grey ${turn}`));
      }
      return { answer: 'grey' };
    });
    expect(await play(polling, echo)).toMatchObject({ reward: 1, repeats: 2 * MOST_REPEATS - 1 });
  });

  it('is counted in results and summary, as are refused requests with the message of the first', async () => {
    const refused = agent(async ({ policy }) => {
      await say(policy, asked('a'));
      await say(policy, asked('a'));
      for (const mediaType of ['image/png', 'image/jpeg'])
        await say(policy, [{ role: 'user', content: [{ type: 'file', mediaType, data: { type: 'data', data: new Uint8Array(4) } }] }]).catch(
          () => {},
        );
      await say(policy, asked('b'), { responseFormat: { type: 'json', schema: {} } }).catch(() => {});
      return { answer: 'grey' };
    });
    const { repeats, refused: of } = figures([recorded(await play(refused, echo))], { planned: 1, rolloutsPerExample: 1 });
    expect(repeatsText(repeats!)).toBe('1 request in 1 rollout was the same as an earlier one and got its answer');
    expect(of).toMatchObject({ rollouts: 1, count: 3 });
    expect(refusedText(of!)).toMatch(/^3 requests in 1 rollout could not be honoured; the first: prompt\[0\]/);
  });

  it('is no refusal that a budget is spent', async () => {
    const many = agent(
      async ({ policy }) => {
        await say(policy, asked('a'));
        await say(policy, asked('b')).catch(() => {});
        return { answer: 'grey' };
      },
      { maxTurns: 1 },
    );
    const rollout = await play(many, echo);
    expect(rollout.stop).toBe('max_turns_reached');
    expect(rollout.refused).toBeUndefined();
  });
});
