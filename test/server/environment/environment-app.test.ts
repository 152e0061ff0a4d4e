import { describe, expect, it } from 'vitest';
import { startEnvironmentServer } from '../../../src/server/environment/start-environment-server.ts';
import { environmentClient, noPolicies, TalkEnv } from './environment-client.ts';

const KEY = { authorization: 'Bearer sesame' };

describe('environmentApp', () => {
  it('pages through the rows of its split, in order', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [status, page] = await server.get('/v1/tasks?offset=1&limit=2');
    expect(status).toBe(200);
    expect(page).toEqual({
      env_id: 'talk',
      split: 'eval',
      total: 4,
      metrics: ['turns', 'chars'],
      tasks: [1, 2].map((i) => ({ example_id: `row-${i}`, prompt: [{ role: 'user', content: `Talk about ${i}.` }], answer: `${i}`, info: {} })),
    });
    expect((await server.get('/v1/tasks?offset=9'))[1].tasks).toEqual([]);
    for (const query of ['limit=-1', 'limit=a', 'offset=1.5', 'limit=10001', 'foo=1']) {
      const [refused, { error }] = await server.get(`/v1/tasks?${query}`);
      expect([refused, error.type]).toEqual([422, 'ValidationError']);
    }
  });

  it('describes every route that it has, from the schemas that it checks', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [status, { openapi, paths }] = await server.get('/openapi.json');
    expect([status, openapi]).toEqual([200, '3.1.0']);
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining(['/health', '/v1/tasks', '/v1/episodes', '/v1/episodes/step', '/v1/rollouts', '/reset', '/step']),
    );
    const schema = paths['/v1/episodes'].post.requestBody.content['application/json'].schema;
    expect(schema.required).toEqual(['policy', 'episodes']);
    for (const [path, methods] of Object.entries(paths)) {
      for (const method of Object.keys(methods as object)) {
        const answer = await fetch(server.url + path.replaceAll(/\{\w+\}/g, 'x'), { method: method.toUpperCase() });
        expect([path, method, answer.status], 'a described route exists').not.toEqual([path, method, 405]);
      }
    }
  });

  it('requires the key everywhere but at /health', async () => {
    await using server = await environmentClient(new TalkEnv(), { apiKey: 'sesame' });
    expect((await server.get('/health'))[0]).toBe(200);
    for (const path of ['/v1/tasks', '/openapi.json', '/nowhere']) {
      expect((await server.get(path))[0]).toBe(401);
      expect((await server.get(path, { authorization: 'Bearer open' }))[0]).toBe(401);
    }
    expect((await server.get('/v1/tasks', KEY))[0]).toBe(200);
    const [status, { error }] = await server.post('/v1/episodes', {});
    expect([status, error.message]).toEqual([401, 'The API key is missing or wrong. Send the header authorization: Bearer KEY.']);
  });

  it('does not listen on the network without a key', async () => {
    const open = startEnvironmentServer({
      environment: new TalkEnv(),
      split: 'eval',
      tokenizer: null,
      callerModels: () => null,
      policies: noPolicies,
      redact: (text) => text,
      host: '0.0.0.0',
      port: 0,
      apiKey: null,
      version: '1',
    });
    await expect(open).rejects.toThrow('0.0.0.0 is open to the network, and no API key is required. Add --api-key-var NAME, or listen on 127.0.0.1.');
  });

  it.each([
    ['no body', '', 422, /JSON/],
    ['an unknown key', { policy: { kind: 'chat' }, episodes: [{ example_id: 'row-0' }], foo: 1 }, 422, /must not have the key "foo"/],
    ['no episodes', { policy: { kind: 'chat' }, episodes: [] }, 422, /episodes must have at least 1 item\b/],
    ['too many', { policy: { kind: 'chat' }, episodes: Array.from({ length: 1025 }, () => ({ example_id: 'row-0' })) }, 422, /at most 1024 items/],
    ['a wrong kind', { policy: { kind: 'both' }, episodes: [{ example_id: 'row-0' }] }, 422, /policy.kind must be one of "tokens", "chat"/],
    ['an unknown row', { policy: { kind: 'chat' }, episodes: [{ example_id: 7 }] }, 422, /episodes\[0\].example_id: 7 is not among the 4 rows/],
  ])('refuses %s in one line that says what was expected', async (_, body, status, message) => {
    await using server = await environmentClient(new TalkEnv());
    const [refused, answer] = await server.post('/v1/episodes', body);
    expect(refused).toBe(status);
    expect(answer.error.message).toMatch(message);
    expect(answer.error.message).not.toContain('\n');
    expect(server.failures).toEqual([]);
  });

  it('names the method that a path takes', async () => {
    await using server = await environmentClient(new TalkEnv());
    const answer = await fetch(`${server.url}/v1/episodes`);
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await server.get('/v2'))[0]).toBe(404);
  });
});
