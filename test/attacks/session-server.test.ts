/** `vf-serve gateway`: the routes of a trainer. Those of agents are in gateway.test.ts. */
import { afterAll, describe, expect, it } from 'vitest';
import { startServer } from './attacked-process.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

const server = await startServer(['gateway', '-p', 'embedded', '-m', 'nano-base', '-t', '8', '-T', '1', '--max-sessions', '4000']);
afterAll(() => server[Symbol.asyncDispose]());

const target: HttpTarget = { server: () => server, path: '/sessions', good: {}, refusals: { notJson: 422, wrongType: 415 } };

interface Session {
  readonly session_id: string;
  readonly base_url: string;
  readonly rollout: { readonly loss_mask: readonly number[]; readonly reward: number | null };
}

async function call<T>(path: string, body?: unknown): Promise<T> {
  const sent = { method: body === undefined ? 'GET' : 'POST', headers: { 'content-type': 'application/json' } };
  const answer = await fetch(path.startsWith('http') ? path : server.url + path, body === undefined ? sent : { ...sent, body: JSON.stringify(body) });
  return (await answer.json()) as T;
}

const played = await call<Session>('/sessions', {});
await call(`${played.base_url}/chat/completions`, { messages: [{ role: 'user', content: 'Who?' }], max_tokens: 4 });

describe('vf-serve gateway under attack', () => {
  it('plays a session of the embedded model by token ids', async () => {
    const { rollout } = await call<Session>(`/sessions/${played.session_id}/reward`, { reward: 1 });
    expect([rollout.reward, rollout.loss_mask.reduce((sum, mask) => sum + mask, 0)]).toEqual([1, 4]);
  });

  it('finds no session by a guess, whatever it looks like', async () => {
    for (const guess of ['0', '..', '%2e%2e', '__proto__', 'x'.repeat(5000), '%00', 'a/b', '*'])
      for (const path of [`/sessions/${guess}`, `/sessions/${guess}/end`, `/sessions/${guess}/reward`]) {
        const { status } = await fetch(server.url + path, {
          method: path.endsWith(guess) ? 'GET' : 'POST',
          headers: { 'content-type': 'application/json' },
          ...(path.endsWith(guess) ? {} : { body: '{"reward":1}' }),
        });
        expect([path, [401, 404].includes(status)]).toEqual([path, true]);
      }
  });

  it('refuses settings of a session that are none', async () => {
    for (const body of [
      { timeout: 1e9 },
      { timeout: 0 },
      { timeout: -1 },
      { max_turns: 1.5 },
      { max_completion_tokens: 0 },
      { sampling: [] },
      { sampling: { temperature: 'x' } },
      { example_id: {} },
      { group_id: '' },
      { override_sampling: 1 },
      [],
    ])
      expect([body, (await ask(target, JSON.stringify(body))).status]).toEqual([body, 422]);
  });

  it('withholds a reward that is no number from a rollout', async () => {
    const { session_id: id } = await call<Session>('/sessions', {});
    for (const text of ['{"reward":null}', '{"reward":"1"}', '{"reward":1e999}', '{"reward":NaN}', '{}'])
      expect([text, (await ask({ ...target, path: `/sessions/${id}/reward` }, text)).status]).toEqual([text, 422]);
    expect(await call(`/sessions/${id}`)).toMatchObject({ status: 'open' });
  });

  describe('as any server', () => {
    withstandsHttpAttacks({ ...target, path: `/sessions/${played.session_id}/reward`, good: { reward: 1 } });
  });
});
