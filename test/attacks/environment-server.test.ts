import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AttackedServer, peakGrowth, startServer } from './attacked-process.ts';
import { loopback, sendJson } from '../transport/loopback.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

const MEBIBYTE = 2 ** 20;
const KEY = 'an-api-key-for-tests';
/** That the user of the server has for other things. */
const OTHER_KEYS = { OPENAI_API_KEY: 'sk-of-the-user', SERPER_API_KEY: 'serper-of-the-user', NAMED_KEY: 'key-of-one-server' };

let server: AttackedServer;
beforeAll(async () => {
  const args = ['environment', 'search-r1', '-a', '{"dataset": "fact-world", "corpus": "fact-world"}', '--tokenizer', 'nano-base'];
  server = await startServer([...args, '--max-sessions', '64', '--api-key-var', 'TEST_KEY', '--allow-policy-key-var', 'NAMED_KEY@127.0.0.1:1'], {
    env: { TEST_KEY: KEY, ...OTHER_KEYS },
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const headers = { authorization: `Bearer ${KEY}` };
const good = { episodes: [{ episode_id: 'nobody' }] };
const target: HttpTarget = { server: () => server, path: '/v1/episodes/step', good, headers, refusals: { notJson: 422, wrongType: 415 } };
const begin: HttpTarget = { ...target, path: '/v1/episodes' };
const rollouts: HttpTarget = { ...target, path: '/v1/rollouts' };

interface Begun {
  readonly episodes: readonly { readonly episode_id: string; readonly append_ids: readonly number[] }[];
}

async function beginOne(): Promise<Begun['episodes'][number]> {
  const { status, body } = await ask(begin, JSON.stringify({ policy: { kind: 'tokens' }, episodes: [{ example_id: 'fw_211_mayor_h' }] }));
  expect(status).toBe(200);
  return (JSON.parse(body) as Begun).episodes[0]!;
}

async function remove(id: string): Promise<void> {
  await fetch(`${server.url}/v1/episodes/${id}`, { method: 'DELETE', headers });
}

describe('vf-serve environment under attack', () => {
  withstandsHttpAttacks(target);

  it('answers any JSON in a step with an entry for each, and keeps serving', async () => {
    const { episode_id: id } = await beginOne();
    const entry = fc.oneof(
      fc.anything({ maxDepth: 2 }),
      fc.record(
        {
          episode_id: fc.oneof(fc.constant(id), fc.string(), fc.anything({ maxDepth: 1 })),
          turn: fc.oneof(fc.integer(), fc.double(), fc.constantFrom(1, 2, -1, 1e300)),
          token_ids: fc.oneof(fc.array(fc.oneof(fc.integer(), fc.double(), fc.string()), { maxLength: 5 }), fc.anything({ maxDepth: 1 })),
          logprobs: fc.oneof(fc.array(fc.double(), { maxLength: 5 }), fc.anything({ maxDepth: 1 })),
          text: fc.oneof(fc.string(), fc.integer()),
          finish_reason: fc.oneof(fc.string(), fc.constantFrom('stop', 'length')),
        },
        { requiredKeys: [] },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 4 }), async (entries) => {
        const body = JSON.stringify({ episodes: entries });
        const answer = await ask(target, body);
        // An entry that is not an object is an error of the request's shape.
        expect([200, 422]).toContain(answer.status);
        const answers = JSON.parse(answer.body) as { episodes?: readonly object[]; error?: object };
        expect(answers.episodes?.length ?? entries.length).toBe(entries.length);
      }),
      { numRuns: 120 },
    );
    await remove(id);
    expect((await ask(target, JSON.stringify(good))).status).toBe(200);
  });

  it('gives nobody the episode of another who does not know its id, and says nothing about it', async () => {
    const { episode_id: id } = await beginOne();
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    for (const guess of [id.toUpperCase(), id.slice(0, -1), `${id} `, '__proto__', 'constructor', '../'.repeat(9)]) {
      const { body } = await ask(target, JSON.stringify({ episodes: [{ episode_id: guess }] }));
      expect(body).toContain('UnknownEpisodeError');
      expect(body).not.toContain('append_ids');
    }
    await remove(id);
  });

  it('holds no more episodes than its limit, for any caller', async () => {
    const many = (n: number) =>
      JSON.stringify({ policy: { kind: 'chat' }, episodes: Array.from({ length: n }, () => ({ example_id: 'fw_211_mayor_h' })) });
    expect((await ask(begin, many(65))).status).toBe(503);
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(begin, many(8))));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(8);
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(12);
    for (const { status, body } of answers)
      if (status === 200) for (const { episode_id: id } of (JSON.parse(body) as Begun).episodes) await remove(id);
    await remove((await beginOne()).episode_id);
  });

  it('keeps its memory while samples of a million tokens are refused', async () => {
    const { episode_id: id } = await beginOne();
    const token_ids = Array.from({ length: 1_000_000 }, () => 5);
    const body = JSON.stringify({ episodes: [{ episode_id: id, turn: 0, token_ids, logprobs: token_ids.map(() => -1) }] });
    const growth = await peakGrowth(server, async () => {
      for (let i = 0; i < 4; i++) expect((await ask(target, body)).body).toContain('SampleError');
    });
    expect(growth).toBeLessThan(400 * MEBIBYTE);
    await remove(id);
  });

  it('asks no server beyond this machine, and sends no variable that its start does not name for that server', async () => {
    const policy = (changes: object) =>
      JSON.stringify({ example_ids: ['fw_211_mayor_h'], policy: { base_url: 'http://127.0.0.1:9/v1', ...changes } });
    for (const base_url of [
      'http://169.254.169.254/latest',
      'http://[::ffff:10.0.0.1]/v1',
      'http://127.0.0.1.example.com/v1',
      'file:///etc/passwd',
      'http://user:pw@10.0.0.1/',
      `http://127.0.0.1:9/${'/'.repeat(2048)}x`,
    ]) {
      const { status, body } = await ask(rollouts, policy({ base_url }));
      expect(status).toBe(422);
      expect(body).not.toContain('pw@');
    }
    for (const api_key_var of ['TEST_KEY', 'PATH', 'HOME', ...Object.keys(OTHER_KEYS)]) {
      const { status, body } = await ask(rollouts, policy({ api_key_var }));
      expect(status).toBe(422);
      expect(body).not.toContain(KEY);
    }
  });

  it('gives no key to a listener of the caller', async () => {
    const keys: unknown[] = [];
    await using listener = await loopback(({ headers: { authorization } }, response) => {
      keys.push(authorization);
      sendJson(response, 404, { error: { message: 'a secret of another service' } });
    });
    const asked = (api_key_var?: string) =>
      ask(rollouts, JSON.stringify({ example_ids: ['fw_211_mayor_h'], policy: { base_url: `${listener.url}/v1`, api_key_var } }));
    for (const name of Object.keys(OTHER_KEYS)) expect((await asked(name)).status).toBe(422);
    expect(listener.requests).toEqual([]);
    const { status, body } = await asked();
    expect({ status, body }).toMatchObject({ status: 422, body: expect.stringContaining(': 404') as string });
    expect(new Set(keys)).toEqual(new Set([undefined]));
    // The server's log has what the caller must not read.
    expect(body).not.toContain('another service');
  });

  it('shows no key in any answer or line', () => {
    for (const key of Object.values(OTHER_KEYS)) expect(server.stdout + server.stderr).not.toContain(key);
    expect(server.stdout + server.stderr).not.toContain(KEY);
  });
});
