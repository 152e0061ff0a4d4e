import { existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodePass } from '../../src/tinker/wire/protobuf-pass.ts';
import { Caller, taught } from '../server/tinker/tinker-caller.ts';
import { type AttackedServer, peakGrowth, startServer } from './attacked-process.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

const KEY = 'tml-attacked-0123456789';
const MEBIBYTE = 2 ** 20;
const home = mkdtempSync(join(tmpdir(), 'vf-tinker-attacks-'));
const state = join(home, 'state');

let server: AttackedServer;
let caller: Caller;
beforeAll(async () => {
  server = await startServer(['tinker', '--threads', '1', '--state', state, '--api-key-var', 'KEY'], { env: { KEY } });
  caller = new Caller(server.url, { 'x-api-key': KEY });
});
afterAll(() => server[Symbol.asyncDispose]());

const target: HttpTarget = {
  server: () => server,
  path: '/api/v1/client/config',
  good: { sdk_version: '0.38.0' },
  headers: { 'x-api-key': KEY },
  refusals: { notJson: 422, wrongType: 415 },
};
const passes: HttpTarget = { ...target, path: '/api/v1/forward_backward', headers: { ...target.headers, 'content-type': 'application/x-protobuf' } };

describe('vf-serve tinker under attack', () => {
  withstandsHttpAttacks(target);

  it('answers nothing but healthz without the key, and does not repeat the key that was sent', async () => {
    expect((await fetch(`${server.url}/api/v1/healthz`)).status).toBe(200);
    for (const key of [null, '', 'tml-other', `${KEY} `.repeat(2), KEY.slice(0, -1)]) {
      const headers = key === null ? {} : { 'x-api-key': key };
      const answers = [
        await fetch(`${server.url}/api/v1/training_runs`, { headers }),
        await fetch(`${server.url}/api/v1/nowhere`, { headers }),
        await fetch(`${server.url}/api/v1/create_session`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: '{}',
        }),
      ];
      expect(answers.map(({ status }) => status)).toEqual([401, 401, 401]);
      expect(await answers[0]!.text()).not.toMatch(/tml-attacked|tml-other/);
    }
  });

  it('refuses a pass of a gigabyte before it reads it, and one whose messages are many', async () => {
    const many = Buffer.alloc(2 ** 21, Buffer.of(0x1a, 0x00));
    const grown = await peakGrowth(server, async () => {
      expect((await ask(passes, '', { 'content-length': String(1024 * MEBIBYTE) })).status).toBe(413);
      expect(await ask(passes, many)).toEqual({ status: 400, body: expect.stringContaining('may have 524288 messages') });
    });
    expect(grown).toBeLessThan(250 * MEBIBYTE);
  });

  it.each([
    ['bytes that are no message', Buffer.from('not a message')],
    ['a message that ends early', Buffer.from(encodePass(pass('none'))).subarray(0, -3)],
    ['a pass in another coding', Buffer.from(JSON.stringify({ model_id: 'x' }))],
  ])('refuses %s as a pass', async (_, bytes) => {
    const { status, body } = await ask(passes, bytes);
    expect([status, body]).toEqual([400, expect.stringContaining('no valid protobuf message')]);
  });

  it('bounds requests that wait for one that never comes, and goes on once their sessions finish', { tags: 'long' }, async () => {
    const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
    const models = await Promise.all(Array.from({ length: 10 }, (_, i) => newModel(session, i)));
    const adam = { learning_rate: 1e-4 };
    const answers = new Map<string, number>();
    const send = async (model: string, seqId: number) => {
      const { status, body } = await ask(
        { ...target, path: '/api/v1/optim_step' },
        JSON.stringify({ model_id: model, seq_id: seqId, adam_params: adam }),
      );
      const said = status === 200 ? 'accepted' : (/10000 requests wait|too far ahead/.exec(body)?.[0] ?? body);
      answers.set(said, (answers.get(said) ?? 0) + 1);
    };
    // A model takes 1,024 ahead of the next.
    for (let seqId = 2; seqId <= 1026; seqId++) await Promise.all(models.map((model) => send(model, seqId)));
    expect(answers.get('accepted')).toBe(10_000);
    expect(answers.get('10000 requests wait')).toBeGreaterThan(0);
    expect([...answers.values()].reduce((sum, count) => sum + count, 0)).toBe(10_250);
    expect(answers.size).toBeLessThanOrEqual(3);
    expect((await caller.get('healthz')).status).toBe(200);
    await caller.ask(`sessions/${session}/finish`, {});
    const { session_id: other } = await caller.ask<{ session_id: string }>('create_session', {});
    await expect.poll(() => newModel(other, 0), { timeout: 20_000 }).toMatch(/:train:0$/);
    await caller.ask(`sessions/${other}/finish`, {});
  });

  it('writes nowhere but into its folder, whatever a name or a path says', async () => {
    const { session_id: session } = await caller.ask<{ session_id: string }>('create_session', {});
    const model = await newModel(session, 0);
    const before = readdirSync(home);
    for (const [i, name] of ['../../escaped', '/tmp/escaped', '..', '.', '', 'a/b', 'a\\b', 'a\0b', '.hidden', 'x'.repeat(300), 'a.tmp'].entries())
      for (const [k, route] of ['save_weights', 'save_weights_for_sampler'].entries()) {
        const { request_id: id } = await caller.ask<{ request_id: string }>(route, { model_id: model, seq_id: 2 * i + k + 1, path: name });
        expect(await caller.result(id)).toEqual({ error: expect.stringContaining('The name of a checkpoint'), category: 'user' });
      }
    for (const path of [
      'tinker://../weights/a',
      'tinker://a/weights/../../b',
      'tinker:///weights/a',
      'file:///etc/passwd',
      '/etc/passwd',
      'tinker://a/../b',
    ]) {
      expect((await caller.post('weights_info', { tinker_path: path })).status).toBe(400);
      expect((await caller.post('load_weights', { session_id: session, model_seq_id: 1, path, optimizer: false })).status).toBe(400);
      expect((await caller.post('create_sampling_session', { session_id: session, sampling_session_seq_id: 9, model_path: path })).status).toBe(400);
    }
    for (const path of ['training_runs/..%2f..', 'training_runs/a/checkpoints/weights%2f..%2f../archive'])
      expect((await caller.get(path)).status).toBeGreaterThanOrEqual(400);
    expect(readdirSync(home)).toEqual(before);
    expect(existsSync('/tmp/escaped')).toBe(false);
    await caller.ask(`sessions/${session}/finish`, {});
  });

  it('gives no results, models or samplers to who guesses their ids', async () => {
    for (const id of ['future-1', 'future-0', '', '../x', 'x'.repeat(100_000)])
      expect((await caller.post('retrieve_future', { request_id: id })).status).toBe(404);
    for (const route of ['get_info', 'save_weights'])
      expect((await caller.post(route, { model_id: 'session-000000000000:train:0', seq_id: 1 })).status).toBe(404);
    expect((await caller.get('samplers/session-000000000000:sample:0')).status).toBe(404);
    expect((await caller.get('archives/AAAA')).status).toBe(404);
  });
});

async function newModel(session: string, number: number): Promise<string> {
  const request = { session_id: session, model_seq_id: number, base_model: 'nano-base', lora_config: { rank: 1 } };
  const { model_id: model, error } = await caller.resultOf<{ model_id?: string; error?: string }>('create_model', request);
  if (model === undefined) throw new Error(error);
  return model;
}

function pass(modelId: string) {
  return { modelId, seqId: 1, lossFn: 'cross_entropy', lossConfig: {}, isForwardOnly: false, data: [taught([1, 2, 3, 4])] };
}
