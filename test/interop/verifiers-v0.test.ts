/** verifiers 0.1.14 over the environment of the Python package, and its viewer over runs of both vf-evals. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { serveWithoutRetriever } from './down-retriever.ts';
import { ownRun, ROOT } from './own-run.ts';
import { v0Outputs } from './peer-outputs.ts';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { REWARD, rewardingServer, SHOWN, TURN_REWARDS } from './rewarding-talk.ts';

const WORLD = { dataset: 'fact-world' };
const TIME = { timeoutMs: 280_000 };
const folder = mkdtempSync(join(tmpdir(), 'vf-interop-v0-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Command {
  readonly version: string;
  readonly printed: string;
}

interface View {
  readonly env_id: string;
  readonly model: string;
  readonly rewards: readonly (number | null)[];
  readonly answers: readonly string[];
  readonly screens: readonly string[];
}

interface Tokens {
  readonly prompt_ids: readonly number[];
  readonly prompt_mask: readonly number[];
  readonly completion_ids: readonly number[];
  readonly completion_mask: readonly number[];
  readonly completion_logprobs: readonly number[];
}

interface States {
  readonly states: readonly {
    readonly example_id: string;
    readonly reward: number;
    readonly advantage: number;
    readonly steps: readonly Tokens[];
    readonly rewards: readonly number[];
    readonly extras: readonly { readonly turn_reward?: number }[];
  }[];
  readonly keys: readonly Readonly<Record<string, string>>[];
}

/** The arguments of our vf-eval for the same rows. */
function ownArgs(url: string, count: number): string[] {
  return ['search-r1', '-b', url, '-m', 'nano-base', '-T', '0', '-n', String(count), '-a', JSON.stringify(WORLD)];
}

describePeer('verifiers-v0', { quick: false }, () => {
  it('vf-eval vf-search gets the rewards, metrics and messages of our vf-eval', async () => {
    const { url } = await servedModel('chat');
    using own = await ownRun(ownArgs(url, 50));
    const results = join(folder, 'theirs');
    const args = JSON.stringify({ env: 'search-r1', ...WORLD });
    const run = await runPeer<Command>('verifiers-v0', 'vf_eval', [ROOT, results, args, url, '-n', '50', '-r', '2'], TIME);
    const rows = v0Outputs(results);
    expect(rows).toHaveLength(100);
    expect(new Set(rows.map(({ info }) => info.example_id))).toEqual(new Set(own.rows.keys()));
    for (const { info, reward, metrics, completion, error } of rows) {
      const row = own.rows.get(info.example_id)!;
      expect({ reward, metrics, error }).toEqual({ reward: row.reward, metrics: row.metrics, error: null });
      expect(completion.map(({ role, content }) => ({ role, content }))).toEqual(row.completion.map(({ role, content }) => ({ role, content })));
    }
    expect(new Set(rows.map(({ reward }) => reward))).toEqual(new Set([0, 1]));
    expect(run.printed).toContain('retrieval_hit');
    resultLine(
      'verifiers v0 vf-eval',
      run.version,
      'vf-eval vf-search -n 50 -r 2, greedy, against our vf-eval',
      '100 rewards, metrics and completions equal',
    );
  });

  it('a row that failed has its error, and 0.0 under every metric', async () => {
    await using server = await serveWithoutRetriever('nq-mini');
    const { url } = await servedModel();
    const results = join(folder, 'failed');
    const args = JSON.stringify({ url: server.url });
    const run = await runPeer<Command>('verifiers-v0', 'vf_eval', [ROOT, results, args, url, '-n', '10', '-r', '1'], TIME);
    const rows = v0Outputs(results);
    const [failed, finished] = [rows.filter(({ error }) => error !== null), rows.filter(({ error }) => error === null)];
    expect([failed.length > 0, finished.length > 0]).toEqual([true, true]);
    for (const { reward, metrics, error } of failed) {
      expect(error!.error).toBe('InfraError');
      expect(error!.error_chain_repr).toContain('RetrievalError');
      expect([reward, ...Object.values(metrics)]).toEqual(Array.from({ length: 1 + Object.keys(metrics).length }, () => 0));
      expect(Object.keys(metrics)).toEqual(Object.keys(finished[0]!.metrics));
    }
    resultLine('verifiers v0 vf-eval', run.version, 'the retriever is down', `${failed.length} of 10 rows with their error and 0.0`);
  });

  it('its states have the tokens, masks and log-probs that vf-export writes, and a key only where one is meant', async () => {
    const { url } = await servedModel('chat');
    using own = await ownRun(ownArgs(url, 8));
    const exported = await own.exported();
    const args = JSON.stringify({ env: 'search-r1', ...WORLD });
    const { states, keys } = await runPeer<States>('verifiers-v0', 'rollout_state', [ROOT, args, url, '8'], TIME);
    expect(states).toHaveLength(16);
    let tokens = 0;
    for (const { example_id: id, steps, reward, rewards, advantage } of states) {
      const row = exported.get(id)!;
      const turns = row.segments.filter(({ kind }) => kind === 'model');
      expect(steps).toHaveLength(turns.length);
      for (const [place, { start, end }] of turns.entries()) {
        const step = steps[place]!;
        expect(step.prompt_ids).toEqual(row.token_ids.slice(0, start));
        expect(step.prompt_mask).toEqual(step.prompt_ids.map(() => 0));
        expect(step.completion_ids).toEqual(row.token_ids.slice(start, end));
        expect(step.completion_mask).toEqual(row.loss_mask.slice(start, end));
        for (const [i, value] of step.completion_logprobs.entries()) expect(Math.abs(value - row.logprobs[start + i]!)).toBeLessThan(1e-5);
        tokens += end - start;
      }
      expect([reward, advantage, rewards]).toEqual([row.reward, 0, turns.map(() => row.reward)]);
    }
    expect(keys).toEqual([{}, { api_key_var: 'NAMED_API_KEY' }, {}, { api_key_var: 'PRIME_API_KEY' }]);
    resultLine('verifiers v0 State', '0.1.14', '16 rollouts: tokens per turn against vf-export', `${tokens} sampled tokens equal`);
  });

  it('the steps of its states have the rewards of their turns', async () => {
    await using server = await rewardingServer();
    const { states } = await runPeer<States>('verifiers-v0', 'rollout_state', [ROOT, JSON.stringify({ url: server.url }), server.url, '2'], TIME);
    expect(states).toHaveLength(4);
    for (const { reward, rewards, extras } of states) {
      expect([reward, ...rewards]).toEqual(Array(1 + TURN_REWARDS.length).fill(REWARD));
      expect(extras).toEqual(TURN_REWARDS.map((value) => (value === null ? {} : { turn_reward: value })));
    }
    resultLine('verifiers v0 State', '0.1.14', 'an environment that rewards turns', `turn_reward ${SHOWN}`);
  });

  it('vf-tui and load_outputs open runs of both, null rewards too', async () => {
    const { url } = await servedModel('chat');
    using own = await ownRun(ownArgs(url, 4));
    using failed = await ownRun([...ownArgs(url, 3), '--timeout', '0.001']);
    const all = join(folder, 'all');
    for (const each of [own.folder, failed.folder, join(folder, 'theirs')]) cpSync(join(each, 'evals'), join(all, 'evals'), { recursive: true });
    const views = await runPeer<readonly View[]>('verifiers-v0', 'viewer', [all], TIME);
    expect(views.map(({ env_id, model }) => `${env_id} ${model}`).toSorted()).toEqual([
      'search-r1 nano-base',
      'search-r1 nano-base',
      'vf-search nano-base',
    ]);
    expect(views.map(({ rewards }) => rewards.length).toSorted((a, b) => a - b)).toEqual([3, 4, 100]);
    const nulls = views.find(({ rewards }) => rewards.length === 3)!;
    expect(nulls.rewards).toEqual([null, null, null]);
    for (const { screens, env_id, answers, rewards } of views) {
      for (const place of [0, 1]) {
        expect(screens[place]).toContain(env_id);
        expect(screens[place]).toContain(answers[place]);
        expect(screens[place]).toMatch(rewards[place] === null ? /reward None[^]*TimeoutError/ : /reward [01]\.0/);
      }
    }
    resultLine('verifiers v0 vf-tui', '0.1.14', 'opens its run, ours, and one of ours with null rewards', '3 runs shown');
  });
});
