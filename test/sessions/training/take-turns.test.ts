/** A whole small run whose server sleeps while the backend computes. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { reviveInTurn, takeTurns } from '../../../src/sessions/training/take-turns.ts';
import { SleepTurns } from '../../../src/launch/sleep-turns.ts';
import { finalAdapter, newRun, trainSmall } from '../../trainer/small-run.ts';
import { UnigramBackend } from '../../trainer/unigram-backend.ts';
import { loopback, sendJson } from '../../transport/loopback.ts';

const signal = new AbortController().signal;
const config = { steps: 3, evaluation: { every: 0 } };

describe('takeTurns', () => {
  it('samples and publishes only while the server is awake, computes only while it sleeps, and ends with the same weights', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'vf-turns-'));
    const alone = await finalAdapter(await trainSmall(await newRun(parent), { backend: async () => new UnigramBackend(), config }), 'unigram.json');

    await using server = await loopback((_, response) => sendJson(response, 200, {}));
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    const [computed, sampled, published, released]: boolean[][] = [[], [], [], []];
    const backend = async () => {
      const own = new UnigramBackend((call) => {
        if (call === 'forward' || call === 'backward' || call === 'optimStep') computed!.push(turns.isAsleep);
      });
      return Object.assign(own, { releaseMemory: async () => void released!.push(turns.isAsleep) });
    };
    const outcome = await trainSmall(await newRun(await mkdtemp(join(tmpdir(), 'vf-turns-'))), {
      backend,
      config,
      onTurn: () => void sampled!.push(turns.isAsleep),
      session: (session) => {
        const { publisher } = session;
        const publish = publisher.publish.bind(publisher);
        publisher.publish = (request, by) => {
          published!.push(turns.isAsleep);
          return publish(request, by);
        };
        return takeTurns(session, turns, signal);
      },
    });
    expect(await finalAdapter(outcome, 'unigram.json')).toEqual(alone);
    for (const [places, asleep] of [
      [computed, true],
      [released, true],
      [sampled, false],
      [published, false],
    ] as const) {
      expect(places!.length).toBeGreaterThanOrEqual(3);
      expect(new Set(places)).toEqual(new Set([asleep]));
    }
    // One change each way a step, and no more.
    expect(server.requests.filter((line) => line === 'POST /wake_up')).toHaveLength(3);
    expect(server.requests.filter((line) => line === 'POST /sleep?level=1')).toHaveLength(3);
  });

  it('turns a server that does not wake into a failed publish, which keeps the old version', async () => {
    await using server = await loopback((request, response) => sendJson(response, request.url === '/wake_up' ? 500 : 200, { error: 'no memory' }));
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    await turns.sleep(signal);
    const kept = { version: 0, model: 'base' };
    const session = {
      backend: new UnigramBackend(),
      versions: { current: () => kept },
      publisher: {},
      client: { capabilities: {}, name: '' },
      name: 'x',
    };
    const { publisher } = takeTurns(session as unknown as Parameters<typeof takeTurns>[0], turns, signal);
    const result = await publisher.publish({} as Parameters<typeof publisher.publish>[0], signal);
    expect(result).toMatchObject({ ok: false, kept, reason: { message: expect.stringContaining('no memory') as string } });
  });

  it('starts a server that died in the turn of the worker again in its own, and gives it the version then', async () => {
    await using server = await loopback((_, response) => sendJson(response, 200, {}));
    await using turns = new SleepTurns({ baseUrl: server.url, apiKey: 'key' });
    const seen: string[] = [];
    const note = (what: string) => async () => {
      seen.push(`${what} ${turns.isAsleep ? 'asleep' : 'awake'}`);
      return { ok: true, isLoaded: true } as const;
    };
    const session = {
      backend: { releaseMemory: note('released') },
      versions: { current: () => ({ version: 1, model: 'v1' }) },
      publisher: { catchUp: note('caught up') },
      client: { capabilities: {}, name: '', lease: async () => ({}) },
      name: 'x',
    };
    const { publisher, client } = takeTurns(session as unknown as Parameters<typeof takeTurns>[0], turns, signal);
    const launched = { replicas: ['one'], revive: note('revived'), renew: note('renewed'), watch: () => ({ [Symbol.dispose]: () => {} }) };
    const servers = reviveInTurn(launched as unknown as Parameters<typeof reviveInTurn>[0], turns);
    await turns.sleep(signal);
    const back = servers.revive('one', signal).then(() => publisher.catchUp('one', signal));
    await sleep(10);
    expect(seen).toEqual([]);
    await client.lease(signal);
    await back;
    expect(seen).toEqual(['released asleep', 'revived awake', 'caught up awake']);
  });
});
