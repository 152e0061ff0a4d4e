/** OpenEnv's own clients, unmodified, against `vf-serve environment`. */
import { afterAll, expect, it } from 'vitest';
import { ConfigError, EnvironmentError } from '../../src/core/errors.ts';
import { type EnvironmentClient, environmentClient, TalkEnv } from '../server/environment/environment-client.ts';
import { type OwnRow, type OwnRun, ownRun } from './own-run.ts';
import type { OpenEnvEpisode, OpenEnvPlay } from './peer-outputs.ts';
import { describePeer, type Peer, resultLine, runPeer, servedModel } from './peer.ts';
import { type ServedCommand, serveCommand } from './serve-command.ts';

const ROWS = process.env['VF_INTEROP_QUICK'] === '1' ? 20 : 100;
const ARGS = '{"dataset": "fact-world", "corpus": "fact-world"}';
const TIME = { timeoutMs: 400_000 };

/** Without the stop string at a turn's end: where a server does not name it, both of ours put it back where its tag is open, and the client does not. */
function compared({ example_id, reward, metrics, stop_condition, completion }: OpenEnvEpisode | OwnRow) {
  const said = completion.map(({ role, content }) => [role, role === 'assistant' ? content.replace(/<\/search>$/, '') : content]);
  return { example_id, reward, metrics, stop_condition, said };
}

/** The packages' clients on one server with one model. */
let shared: Promise<{ readonly server: ServedCommand; readonly own: OwnRun }> | null = null;

async function start() {
  const { url } = await servedModel('chat');
  const args = ['search-r1', '-b', url, '--api-client-type', 'chat', '-T', '0', '-a', ARGS, '-n', String(ROWS)];
  return { own: await ownRun(args), server: await serveCommand(['environment', 'search-r1', '-a', ARGS]) };
}

afterAll(async () => {
  const started = await shared;
  started?.own[Symbol.dispose]();
  await started?.server[Symbol.asyncDispose]();
});

async function playedAndEvaluated(peer: Peer, what: string, how: string) {
  const { server, own } = await (shared ??= start());
  const { url, model } = await servedModel('chat');
  const rows = [...own.rows.keys()];
  const { version, episodes } = await runPeer<OpenEnvPlay>(peer, 'play', [server.url, url, model, how, JSON.stringify(rows), peer], TIME);
  for (const { example_id: id, completion, state } of episodes) {
    const steps = completion.filter(({ role }) => role === 'assistant').length;
    expect(state).toEqual({ episode_id: `play of ${id}`, step_count: steps, example_id: id, done: true });
  }
  const mean = episodes.reduce((sum, { reward }) => sum + reward, 0) / episodes.length;
  expect(mean).toBeGreaterThan(0);
  expect(await (await fetch(`${server.url}/health`)).json()).toMatchObject({ episodes: 0 });
  resultLine(peer, version, `vf-serve environment: ${what}, ${rows.length} rows`, `rewards and words of vf-eval, mean ${mean.toFixed(2)}`);
  return { played: episodes.map(compared), evaluated: [...own.rows.values()].map(compared) };
}

describePeer('openenv', { quick: true }, () => {
  it.each([
    ['an async client', 'async'],
    ['a sync client', 'sync'],
    ['eight async clients at once', '8'],
  ])(
    'GenericEnvClient: %s gets the rewards of vf-eval, row by row',
    async (what, how) => {
      const both = await playedAndEvaluated('openenv', what, how);
      expect(both.played).toEqual(both.evaluated);
    },
    TIME.timeoutMs,
  );

  raisesEveryError('openenv');
});

describePeer('openenv-core', { quick: true }, () => {
  it(
    'GenericEnvClient gets the rewards of vf-eval, row by row',
    async () => {
      const both = await playedAndEvaluated('openenv-core', 'an async client', 'async');
      expect(both.played).toEqual(both.evaluated);
    },
    TIME.timeoutMs,
  );

  raisesEveryError('openenv-core');
});

interface Raised {
  readonly version: string;
  readonly errors: Readonly<Record<string, string>>;
  readonly [what: string]: unknown;
}

async function talkServer(): Promise<EnvironmentClient> {
  const onStep = (kept: string, signal: AbortSignal) => {
    if (kept.includes('fail')) throw new EnvironmentError('The index is gone');
    return kept.includes('slow')
      ? new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
      : undefined;
  };
  return environmentClient(new TalkEnv({ onStep, turnRewards: { 1: 0.5, 2: -0.25 } }), { maxSessions: 2, stepTimeoutMs: 500 });
}

function raisesEveryError(peer: Peer): void {
  it('GenericEnvClient raises each error with its code, and its session lives on', async () => {
    await using server = await talkServer();
    const callerModels = () => {
      throw new ConfigError('The role judge is bound to the policy.');
    };
    await using unplayable = await environmentClient(new TalkEnv(), { callerModels });
    const run = await runPeer<Raised>(peer, 'errors', [server.url, unplayable.url, peer], TIME);
    const { version, errors, ...others } = run;
    const raised = (code: string, message: RegExp) =>
      expect.stringMatching(new RegExp(`^RuntimeError: Server error: .*${message.source}.* \\(code: ${code}\\)$`)) as string;
    expect(errors).toEqual({
      'no reset': raised('EXECUTION_ERROR', /Send reset first/),
      row: raised('VALIDATION_ERROR', /"nobody" is not among the 4 rows/),
      action: raised('VALIDATION_ERROR', /"words"/),
      'after the end': raised('EXECUTION_ERROR', /has ended/),
      failed: raised('EXECUTION_ERROR', /EnvironmentError: The index is gone/),
      slow: raised('EXECUTION_ERROR', /--step-timeout/),
      full: raised('CAPACITY_REACHED', /2 of 2 sessions/),
      role: raised('FACTORY_ERROR', /judge is bound to the policy/),
    });
    expect(others).toEqual({
      codes: { json: 'INVALID_JSON', binary: 'INVALID_JSON', type: 'UNKNOWN_TYPE', mcp: 'UNKNOWN_TYPE' },
      number: ' you said 42',
      // The first step's is the turn's, the last step's has the rollout's too.
      rewards: [0.5, 1.75],
      done: true,
      state: { episode_id: expect.any(String) as string, step_count: 1, example_id: 'row-1', done: true },
      again: 'Talk about 1.',
      place: false,
    });
    expect(server.failures).toEqual([]);
    resultLine(peer, version, 'vf-serve environment: every error of the protocol', `${Object.keys(errors).length + 4} errors with their codes`);
  }, 60_000);
}
