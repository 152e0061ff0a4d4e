/** Inspect AI's own command over the task of the Python package. */
import { expect, it } from 'vitest';
import { serveWithoutRetriever } from './down-retriever.ts';
import { ownRun, ROOT } from './own-run.ts';
import type { InspectRun } from './peer-outputs.ts';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { REWARD, rewardingServer, SHOWN, talkingModel, TURN_REWARDS } from './rewarding-talk.ts';

const ROWS = process.env['VF_INTEROP_QUICK'] === '1' ? 20 : 50;
const WORLD = JSON.stringify({ dataset: 'fact-world' });

async function inspectEval(args: readonly string[], model?: string): Promise<InspectRun> {
  const url = model ?? (await servedModel('chat')).url;
  return runPeer<InspectRun>('inspect', 'eval', [ROOT, url, ...args], { timeoutMs: 280_000 });
}

describePeer('inspect', { quick: true }, () => {
  it('inspect eval gets the metrics and messages of vf-eval in chat mode, row by row', async () => {
    const { url, model } = await servedModel('chat');
    const count = ['-n', String(ROWS)];
    using own = await ownRun(['search-r1', ...count, '-b', url, '-m', model, '--api-client-type', 'chat', '-T', '0', '-a', WORLD]);
    const run = await inspectEval(['-T', 'env=search-r1', '-T', `args=${WORLD}`, '--limit', String(ROWS)]);
    expect([run.exit, run.status, run.scored, run.samples.length]).toEqual([0, 'success', ROWS, ROWS]);
    for (const { id, error, scores, messages } of run.samples) {
      const row = own.rows.get(id)!;
      expect({ id, error, scores }).toEqual({ id, error: null, scores: [{ ...row.metrics, reward: row.reward }] });
      expect(messages).toEqual([...row.prompt, ...row.completion].map(({ role, content }) => [role, content]));
    }
    const rewards = [...own.rows.values()].map(({ reward }) => reward!);
    const mean = rewards.reduce((sum, value) => sum + value, 0) / ROWS;
    expect(run.means['reward']![0]).toBeCloseTo(mean, 12);
    expect(run.means['reward']![1]).toBeGreaterThan(0);
    expect(new Set(rewards)).toEqual(new Set([0, 1]));
    resultLine(
      'inspect eval',
      run.version,
      `${ROWS} rows, greedy, against vf-eval in chat mode`,
      `scores and messages equal; reward ${mean.toFixed(3)}`,
    );
  });

  it('the score of a rollout has the rewards of its turns', async () => {
    await using server = await rewardingServer();
    await using model = await talkingModel();
    const run = await inspectEval(['-T', `url=${server.url}`, '--limit', '2'], model.url);
    expect([run.status, run.samples.length]).toEqual(['success', 2]);
    for (const { error, scores, metadata } of run.samples) {
      expect({ error, rewards: scores.map(({ reward }) => reward) }).toEqual({ error: null, rewards: [REWARD] });
      expect(metadata).toMatchObject([{ num_turns: TURN_REWARDS.length, turn_rewards: TURN_REWARDS }]);
    }
    resultLine('inspect eval', run.version, 'an environment that rewards turns', `turn_rewards ${SHOWN}`);
  });

  it('an episode that failed is an error of its sample and has no score', async () => {
    await using server = await serveWithoutRetriever('fact-world');
    const run = await inspectEval(['-T', `url=${server.url}`, '--limit', '5', '--no-fail-on-error']);
    expect(run.scored).toBe(0);
    expect(run.means).toEqual({});
    expect(run.samples).toHaveLength(5);
    for (const { error, scores, messages } of run.samples) {
      expect(error).toMatch(/RetrievalError: http\S+ did not answer/);
      expect(scores).toEqual([]);
      expect(messages.at(-1)![0]).toBe('assistant');
    }
    expect(run.printed).toContain('5 of 5 executed samples (100%) had errors and were not scored');
    resultLine('inspect eval', run.version, 'the retriever is down', '5 of 5 samples are errors without a score');
  });
});
