import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../src/server/listen.ts';
import { DEFAULT_LIMITS, policyApp } from '../../src/server/policy/policy-app.ts';
import { openNano } from '../engine/nano-requests.ts';
import { type AttackedServer, peakGrowth, sendRaw, startServer } from './attacked-process.ts';
import { ask, type HttpTarget, withstandsHttpAttacks } from './http-attacks.ts';

const KEY = 'sk-attacked-0123456789';
const MEBIBYTE = 2 ** 20;
/** Of models/nano-base, which the command serves by default. */
const VOCABULARY = 1597;

let server: AttackedServer;
beforeAll(async () => {
  server = await startServer(['policy', '--threads', '1', '--api-key-var', 'POLICY_KEY'], { env: { POLICY_KEY: KEY } });
});
afterAll(() => server[Symbol.asyncDispose]());

const target: HttpTarget = {
  server: () => server,
  path: '/v1/completions',
  good: { prompt: [300, 301], max_tokens: 1 },
  headers: { authorization: `Bearer ${KEY}` },
  refusals: { notJson: 400, wrongType: 400 },
};
const complete = (fields: object) => ask(target, JSON.stringify({ prompt: 'Question: x', max_tokens: 4, ignore_eos: true, ...fields }));
/** `count` ids that repeat all of the vocabulary. */
const repeated = (count: number) => Array.from({ length: count }, (_, i) => i % VOCABULARY);

describe('vf-serve policy under attack', () => {
  withstandsHttpAttacks(target);

  it.each([
    ['two allowed tokens, a million times', { n: 256, allowed_token_ids: Array.from({ length: 1_000_000 }, (_, i) => 3 + (i % 2)) }],
    ['a hundred thousand allowed tokens for each of 1,024 choices', { n: 1024, max_tokens: 1, allowed_token_ids: repeated(100_000) }],
    ['a million stop tokens', { n: 256, max_tokens: 1, stop_token_ids: Array.from({ length: 1_000_000 }, () => 3) }],
    [
      'the same prompt and the longest stop strings for each of 1,024 choices',
      { n: 1024, max_tokens: 1, stop: ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(1024)) },
    ],
  ])('holds little for %s', async (_, fields) => {
    const grown = await peakGrowth(server, async () => {
      expect((await complete(fields)).status).toBe(200);
    });
    expect(grown).toBeLessThan(250 * MEBIBYTE);
  });

  it.each([
    ['stop strings of a megabyte', { n: 256, stop: ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(1_000_000)) }, /at most 1024 characters/],
    ['one stop string that is too long by a character', { stop: 'a'.repeat(1025) }, /at most 1024 characters, got one of 1025/],
    ['more stop tokens than a request has use for', { n: 256, stop_token_ids: repeated(100_000) }, /at most 1024 different ids/],
    [
      'allowed tokens that the model does not have',
      { n: 256, allowed_token_ids: Array.from({ length: 1_000_000 }, (_, i) => i) },
      /out-of-vocab.*value=1597/,
    ],
    ['a billion choices', { n: 1e9 }, /at most 1024 choices/],
    ['a prompt of two million words', { prompt: 'a b '.repeat(1_000_000) }, /at most 524288 characters/],
  ])('refuses %s', async (_, fields, message) => {
    const grown = await peakGrowth(server, async () => {
      const { status, body } = await complete(fields);
      expect(status).toBe(400);
      expect((JSON.parse(body) as { error: { message: string } }).error.message).toMatch(message);
    });
    expect(grown).toBeLessThan(250 * MEBIBYTE);
  });

  it('lets no request in without the key', async () => {
    const { port } = server;
    const get = (path: string, ...lines: string[]) =>
      sendRaw(port, [`GET ${path} HTTP/1.1`, 'host: 127.0.0.1', 'connection: close', ...lines, '', ''].join('\r\n'));
    expect(await get('/v1/models', `authorization: Bearer ${KEY}`)).toMatch(/^HTTP\/1\.1 200 /);
    const attempts: [string, ...string[]][] = [
      ['/v1/models'],
      ['/v1/models', 'authorization: Bearer'],
      ['/v1/models', `authorization: Basic ${Buffer.from(`:${KEY}`).toString('base64')}`],
      ['/v1/models', `authorization: Bearer ${KEY}x`],
      ['/v1/models', `authorization: Bearer ${KEY.slice(0, -1)}`],
      ['/v1/models', `authorization: Bearer x, Bearer ${KEY}`],
      ['/v1/models', `authorization: Bearer x`, `authorization: Bearer ${KEY}`],
      ['/v1/models', `x-api-key: ${KEY}`],
      [`/v1/models?api_key=${KEY}`],
      [`/v1/models?authorization=Bearer%20${KEY}`],
      ['//v1/models'],
      ['/v1/models/'],
      ['/v1//models'],
      ['/V1/MODELS'],
      ['/%76%31/models'],
      ['/health/../v1/models'],
      ['/health/..%2fv1/models'],
      ['/health;/v1/models'],
      ['/health%00/../../v1/models'],
      ['/v1/models#/health'],
      ['/v1/models?/health'],
      ['http://127.0.0.1/v1/models'],
      ['/v1/models', 'x-original-url: /health'],
      ['/v1/models', 'x-http-method-override: OPTIONS'],
    ];
    for (const [path, ...lines] of attempts) {
      const answer = await get(path, ...lines);
      expect({ path, lines, open: answer.includes('nano-base') || !answer.startsWith('HTTP/1.1 4') }).toEqual({ path, lines, open: false });
    }
    for (const method of ['OPTIONS', 'HEAD', 'PUT', 'TRACE', 'PATCH', 'DELETE'])
      expect(await sendRaw(port, `${method} /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 4/);
  });

  it('gives up a body that does not arrive in time (408), and the connection with it', async () => {
    const engine = await openNano({ threads: 1 });
    const app = policyApp({
      engine,
      servedName: 'nano',
      apiKey: null,
      host: '127.0.0.1',
      adapterPlaces: 'none',
      limits: { ...DEFAULT_LIMITS, bodyTimeoutMs: 50 },
    });
    const slow = await listen(app, { host: '127.0.0.1', port: 0 });
    const half = 'POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"prom';
    expect(await sendRaw(Number(new URL(slow.url).port), half, { waits: true })).toMatch(/^HTTP\/1\.1 408 .*"code":408/s);
    await slow.close({ graceMs: 0 });
    await engine.close();
  });
});
