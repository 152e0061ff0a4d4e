/** verifiers 0.4.0 against `vf-serve verifiers`: its EnvClient, which prime-rl and torchtitan use, and its vf-eval through the taskset of the Python package. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BASE_URL, serveWire } from '../server/verifiers/wire-client.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';
import { ownRun, ROOT } from './own-run.ts';
import { describePeer, resultLine, runPeer, servedModel } from './peer.ts';
import { REWARD, rewardingTalk, SHOWN, TURN_REWARDS, WORDS } from './rewarding-talk.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
const TIME = { timeoutMs: 200_000, env: { PYTHONPATH: join(ROOT, 'python') } };
const ROWS = process.env['VF_INTEROP_QUICK'] === '1' ? 20 : 100;

interface Recorded {
  readonly key: string;
  readonly hash: string;
  readonly ok: readonly [episode: boolean, trace: boolean];
  readonly token_ids: readonly number[];
  readonly mask: readonly number[];
  /** 0 where the mask is 0. */
  readonly logprobs: readonly number[];
  readonly reward: number;
  readonly rewards: Readonly<Record<string, readonly [score: number, weight: number] | null>>;
  readonly metrics: Readonly<Record<string, number | null>>;
  readonly info: Readonly<Record<string, unknown>>;
  readonly errors: readonly { readonly type: string; readonly message: string }[];
  readonly turns: readonly [nodes: number, calls: number];
  readonly finish: readonly string[];
  readonly sampled: readonly number[];
  readonly tokens: number;
  readonly roles: readonly string[];
  readonly are_floats: boolean;
  readonly round_trips: boolean;
}

/** The largest difference of log-probs. Everything else must be equal. */
function furthestFrom(episode: Recorded, row: RolloutExport): number {
  const { token_ids, mask, logprobs, rewards, metrics, reward } = episode;
  expect({ token_ids, mask, reward }).toEqual({ token_ids: row.token_ids, mask: row.loss_mask, reward: row.reward });
  expect({ ...metrics, search_r1: rewards['search_r1']?.[0] }).toEqual(row.metrics);
  expect(rewards['search_r1']?.[1]).toBe(1);
  expect(episode).toMatchObject({ hash: episode.key, ok: [true, true], errors: [], are_floats: true, round_trips: true });
  expect(episode.turns).toEqual([episode.finish.length, episode.sampled.length]);
  expect(episode.tokens).toBeGreaterThan(mask.filter((bit) => bit === 1).length);
  expect(logprobs).toHaveLength(token_ids.length);
  return Math.max(...logprobs.map((value, i) => Math.abs(value - (row.logprobs[i] ?? 0))));
}

/** Sampling parameters under which the model cannot answer, which it does at once otherwise, and so searches. */
async function searching(url: string): Promise<string> {
  const { vocab_size: size } = JSON.parse(readFileSync(join(ROOT, 'models/nano-base/config.json'), 'utf8')) as { vocab_size: number };
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(new URL('/tokenize', url), { method: 'POST', headers, body: JSON.stringify({ prompt: '<answer>' }) });
  const { tokens } = (await response.json()) as { tokens: readonly number[] };
  return JSON.stringify({ allowed_token_ids: Array.from({ length: size }, (_, id) => id).filter((id) => id !== tokens[0]) });
}

describePeer('verifiers', { quick: true }, () => {
  let server: ServedCommand;
  beforeAll(async () => {
    server = await serveCommand(['verifiers', 'search-r1', '-a', WORLD, '--allow-policy-key-var', 'VLLM_API_KEY'], {}, [
      '--bind',
      'tcp://127.0.0.1:0',
    ]);
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  const envClient = <T>(what: string, baseUrl: string, count = 1, sampling = '{}', address = server.url) =>
    runPeer<T & { readonly version: string }>('verifiers', 'env_client', [what, address, baseUrl, String(count), sampling], TIME);

  it('EnvClient gets the ids, masks, log-probs and rewards that vf-export writes for the same rows', async () => {
    const { url } = await servedModel();
    let [furthest, several] = [0, 0];
    let version = '';
    // Answers at once, and searches several times.
    for (const sampling of ['{}', await searching(url)]) {
      using own = await ownRun(['search-r1', '-b', url, '-n', String(ROWS), '-r', '1', '-T', '0', '-t', '48', '-S', sampling, '-a', WORLD]);
      const exported = await own.exported();
      const run = await envClient<{ readonly episodes: readonly Recorded[] }>('rows', url, ROWS, sampling);
      expect(run.episodes).toHaveLength(ROWS);
      expect(exported.size).toBe(ROWS);
      for (const episode of run.episodes) furthest = Math.max(furthest, furthestFrom(episode, exported.get(episode.key)!));
      several += run.episodes.filter(({ turns: [count] }) => count > 1).length;
      version = run.version;
    }
    expect(furthest).toBeLessThan(1e-5);
    expect(several).toBeGreaterThan(ROWS / 2);
    const result = `equal; largest difference of log-probs ${Number(furthest.toPrecision(2))}; ${several} with several turns`;
    resultLine('verifiers EnvClient', version, `vf-serve verifiers: ${2 * ROWS} rollouts against vf-export`, result);
  });

  it('EnvClient gets the rewards of turns in the info of a trace', async () => {
    await using talk = await serveWire({ environment: rewardingTalk(), script: { turns: WORDS } });
    const run = await envClient<{ readonly episodes: readonly Recorded[] }>('rows', BASE_URL, 2, '{}', talk.address);
    const rewarded = { reward: REWARD, errors: [], info: { turn_rewards: TURN_REWARDS }, round_trips: true };
    expect(run.episodes).toMatchObject([rewarded, rewarded]);
    resultLine('verifiers EnvClient', run.version, 'an environment that rewards turns', `turn_rewards ${SHOWN}`);
  });

  it('answers 200 runs at once, and health within 2 s meanwhile', async () => {
    const { url } = await servedModel();
    const burst = await envClient<{ readonly ok: number; readonly ids: number; readonly slowest_health_s: number }>('burst', url, 200);
    expect(burst).toMatchObject({ ok: 200, ids: 200 });
    expect(burst.slowest_health_s).toBeLessThan(2);
    resultLine(
      'verifiers EnvClient',
      burst.version,
      'vf-serve verifiers: 200 runs at once',
      `all ok; health within ${Math.ceil(burst.slowest_health_s * 1000)} ms`,
    );
  });

  it('stops asking the policy when EnvClient cancels a run', async () => {
    const asked = Promise.withResolvers<ServerResponse>();
    await using slow = await loopback((request, response) => {
      if (request.url === '/v1/models') return sendJson(response, 200, { data: [{ id: 'nano-base' }] });
      return request.url === '/v1/chat/completions' ? asked.resolve(response) : sendJson(response, 404, {});
    });
    const cancelling = envClient<{ readonly is_running: boolean; readonly health: boolean }>('cancel', `${slow.url}/v1`);
    const request = await asked.promise;
    await once(request, 'close');
    expect(request.writableEnded).toBe(false);
    const { version, ...cancelled } = await cancelling;
    expect(cancelled).toMatchObject({ is_running: true, health: true });
    resultLine('verifiers EnvClient', version, 'vf-serve verifiers: a cancelled run', 'its request to the policy was cut off');
  });

  it('reports a policy that is down as a failed rollout without rewards, and refuses what it cannot play', async () => {
    type Failed = Pick<Recorded, 'ok' | 'errors' | 'rewards' | 'metrics' | 'key'>;
    const dead = `${await refusingUrl()}/v1`;
    const run = await envClient<{ readonly episodes: readonly Failed[]; readonly refusals: readonly (string | null)[] }>('dead', dead);
    for (const episode of run.episodes) {
      expect(episode).toMatchObject({ ok: [false, false], rewards: { search_r1: null }, errors: [{ type: 'PolicyError' }] });
      expect(episode.errors[0]!.message).toMatch(/client\.base_url.* cannot be reached.*start the server/s);
      expect(new Set(Object.values(episode.metrics))).toEqual(new Set([null]));
    }
    expect(run.refusals).toEqual([
      expect.stringMatching(/^ConfigError: The row "no such row" .* The method tasks lists them\.$/),
      expect.stringMatching(/^ConfigError: sampling cannot set "stop": the environment decides/),
      expect.stringMatching(/^ConfigError: client\.base_url is "http:\/\/203\.0\.113\.1\/v1", beyond this machine\. .*--allow-policy-host/),
    ]);
    resultLine('verifiers EnvClient', run.version, 'vf-serve verifiers: the policy is down', 'ok false, errors, rewards null');
  });

  it('vf-eval plays the taskset vf-search-v1, whose episodes the server plays', async () => {
    interface Run {
      readonly version: string;
      readonly traces: readonly { readonly key: string; readonly ok: boolean; readonly rewards: Record<string, unknown> }[];
    }
    const { url, model } = await servedModel();
    const { version, traces } = await runPeer<Run>('verifiers', 'vf_eval', [server.url, url, model], TIME);
    expect(traces).toHaveLength(6);
    const keys = traces.map(({ key }) => key);
    expect(new Set(keys).size).toBe(3);
    expect(traces.every(({ ok }) => ok)).toBe(true);
    resultLine('verifiers vf-eval', version, 'vf-serve verifiers through the taskset vf-search-v1: 3 rows, twice each', 'all ok');
  });
});
