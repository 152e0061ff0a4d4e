import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../src/server/listen.ts';
import { DEFAULT_LIMITS, policyApp } from '../../src/server/policy/policy-app.ts';
import { openNano } from '../engine/nano-requests.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
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
const chat: HttpTarget = { ...target, path: '/v1/chat/completions' };
const messageOf = (body: string) => (JSON.parse(body) as { error: { message: string } }).error.message;

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
    ['more stop tokens than a request has use for', { n: 256, stop_token_ids: repeated(100_000) }, /at most 1,024 different ids/],
    [
      'allowed tokens that the model does not have',
      { n: 256, allowed_token_ids: Array.from({ length: 1_000_000 }, (_, i) => i) },
      /out-of-vocab.*value=1597/,
    ],
    ['a billion choices', { n: 1e9 }, /at most 1,024 choices/],
    [
      'twenty alternatives for each token of 1,024 long prompts',
      { prompt: Array.from({ length: 1024 }, () => repeated(1000)), prompt_logprobs: 20 },
      /at most 1,048,576 log-probs .* got up to 21,504,000 of prompts and 0 of generated tokens; send several requests/,
    ],
    [
      'an echo that judges as many',
      { prompt: Array.from({ length: 1024 }, () => repeated(1000)), echo: true, logprobs: 1 },
      /at most 1,048,576 log-probs/,
    ],
    [
      'twenty alternatives for each token of 1,024 long answers',
      { n: 1024, max_tokens: 1000, logprobs: 20 },
      /at most 1,048,576 log-probs .* got up to 0 of prompts and 21,504,000 of generated tokens/,
    ],
    ['the same of a stream', { n: 1024, max_tokens: 1000, logprobs: 20, stream: true }, /at most 1,048,576 log-probs/],
    ['more answers to choose from than it returns', { n: 2, best_of: 1e9 }, /best_of only if it equals n/],
    ['a million alternatives', { logprobs: 1e6 }, /greater than max allowed: 20/],
    ['a million alternatives of a prompt', { prompt_logprobs: 1e6 }, /greater than max allowed: 20/],
    ['all alternatives', { logprobs: -1 }, /all of the vocabulary.*greater than max allowed: 20/],
    ['a thousand stop strings', { stop: Array.from({ length: 1000 }, (_, i) => String(i)) }, /at most 4 strings, got 1000/],
    ['an empty stop string', { stop: [''] }, /cannot contain an empty string/],
    ['a prompt of two million words', { prompt: 'a b '.repeat(1_000_000) }, /at most 524,288 characters/],
  ])('refuses %s', async (_, fields, message) => {
    const grown = await peakGrowth(server, async () => {
      const { status, body } = await complete(fields);
      expect(status).toBe(400);
      expect((JSON.parse(body) as { error: { message: string } }).error.message).toMatch(message);
    });
    expect(grown).toBeLessThan(250 * MEBIBYTE);
  });

  it.each([
    ['a number beyond all numbers', '"n":1e309'],
    ['a negative number beyond all numbers', '"temperature":-1e309'],
    ['a count as text', '"n":"1"'],
    ['a count of minus zero', '"n":-0'],
    ['half a choice', '"n":0.5'],
    ['a count that no double holds exactly', '"max_tokens":9007199254740993,"n":9007199254740993'],
    ['a count in a list', '"n":[1]'],
    ['a second, larger count under the same name', '"n":1,"n":1e9'],
    ['a prompt of minus one', '"prompt":[-1]'],
    ['a prompt of half a token', '"prompt":[0.5]'],
    ['prompts of two kinds', '"prompt":["a",[1]]'],
    ['a prompt within prompts', '"prompt":[[[1]]]'],
    ['a seed beyond all integers', '"seed":1e300'],
  ])('refuses %s in one line', async (_, field) => {
    const { status, body } = await ask(target, `{"prompt":"x","max_tokens":1,${field}}`);
    expect({ status, body }).toMatchObject({ status: 400 });
    expect(messageOf(body)).toMatch(/^.{10,300}$/);
  });

  it('takes no field from a prototype, nor gives one to others', async () => {
    const fields = '"n":5,"max_tokens":1,"echo":true';
    for (const body of [
      `{"prompt":[300],"max_tokens":1,"__proto__":{${fields}}}`,
      `{"prompt":[300],"max_tokens":1,"constructor":{"prototype":{${fields}}}}`,
      '{"prompt":[300],"max_tokens":1,"stream_options":null,"toString":1,"hasOwnProperty":null}',
    ]) {
      const answer = await ask(target, body);
      expect(answer.status).toBe(200);
      expect((JSON.parse(answer.body) as { choices: object[] }).choices).toHaveLength(1);
    }
  });

  it.each([
    ['alternatives without log-probs', { top_logprobs: 5 }],
    ['a million alternatives', { logprobs: true, top_logprobs: 1e6 }],
    ['twenty alternatives for all that 1,024 answers may hold', { n: 1024, logprobs: true, top_logprobs: 20 }],
    ['a message that is 100,000 lists deep', { messages: [{ role: 'user', content: 'x', deep: null }] }],
    ['variables of a template that are 100,000 lists deep', { chat_template_kwargs: { deep: null } }],
  ])('refuses a chat with %s', async (_, fields) => {
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'x' }], ...fields });
    const { status, body: answer } = await ask(chat, body.replace('"deep":null', `"deep":${'['.repeat(100_000)}${']'.repeat(100_000)}`));
    expect({ status, answer }).toMatchObject({ status: 400 });
    expect(messageOf(answer)).toMatch(/^.{10,400}$/);
  });

  it('refuses a chat whose calls have arguments that nobody has measured, in one text or many', async () => {
    for (const [count, text] of [
      [1, `{"a":[${'[],'.repeat(500_000)}[]]}`],
      [200, `{"a":[${'[],'.repeat(2_000)}[]]}`],
    ] as const) {
      const calls = Array.from({ length: count }, () => ({ type: 'function', function: { name: 'f', arguments: text } }));
      const { status, body } = await ask(chat, JSON.stringify({ messages: [{ role: 'assistant', content: '', tool_calls: calls }] }));
      expect([status, messageOf(body)]).toEqual([400, expect.stringMatching(/^The arguments of all tool calls may have at most 1048576 characters/)]);
    }
  });

  it('loads no adapter from a pipe, a link that leads in a circle, or a folder without a configuration', async () => {
    using folder = new TemporaryFolder();
    const within = (name: string) => join(folder.path, name);
    for (const name of ['bare', 'piped', 'circular', 'broken', 'huge']) mkdirSync(within(name));
    execFileSync('mkfifo', [within('pipe'), within('piped/adapter_config.json'), within('piped/adapter_model.safetensors')]);
    symlinkSync('circle', within('circle'));
    symlinkSync('adapter_config.json', within('circular/adapter_config.json'));
    writeFileSync(within('broken/adapter_config.json'), '{"r":');
    writeFileSync(within('huge/adapter_config.json'), JSON.stringify({ r: 1e9, lora_alpha: 1, target_modules: ['q_proj'], peft_type: 'LORA' }));
    const load = (fields: object) => ask({ ...target, path: '/v1/load_lora_adapter' }, JSON.stringify(fields));
    const names = [
      'pipe',
      'piped',
      'circle',
      'circular',
      'broken',
      'huge',
      'bare',
      'missing',
      'bare/../../..',
      '/dev/zero',
      '/dev/stdin',
      '/proc/self/mem',
    ];
    for (const name of names) {
      const { status, body } = await load({ lora_name: 'x', lora_path: name.startsWith('/') ? name : `${folder.path}/${name}` });
      expect({ name, isRefused: status === 400 || status === 404 }).toEqual({ name, isRefused: true });
      expect(messageOf(body)).toMatch(/^Loading lora x failed: .{5,500}$/);
    }
    for (const path of ['..', '', 'bare', 'a\0b', './bare', `file://${folder.path}`, 'x'.repeat(5000)])
      expect((await load({ lora_name: '..', lora_path: path })).status).toBe(400);
    for (const name of ['', 5, null, ['x'], 'x'.repeat(257)]) expect((await load({ lora_name: name, lora_path: within('bare') })).status).toBe(400);
    for (const name of ['..', '../../etc', '__proto__', 'constructor']) {
      expect((await load({ lora_name: name, lora_path: within('bare') })).status).toBe(404);
      expect((await complete({ model: name })).status).toBe(404);
      expect((await ask({ ...target, path: '/v1/unload_lora_adapter' }, JSON.stringify({ lora_name: name }))).status).toBe(404);
    }
    expect((await complete({})).status).toBe(200);
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
