import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EngineLostError } from '../../../src/engine/engine-errors.ts';
import type { TokenEngine } from '../../../src/engine/engine-types.ts';
import { startPolicyServer } from '../../../src/server/policy/start-policy-server.ts';
import { writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { answerOf, JSON_TYPE, type NanoServer, nanoServer } from './nano-server.ts';

const KEY = 'sk-policy-0123456789abcdef';
const folder = mkdtempSync(join(tmpdir(), 'vf-policy-'));
afterAll(() => rmSync(folder, { recursive: true }));

let server: NanoServer;
beforeAll(async () => {
  server = await nanoServer();
});
afterAll(() => server.close());

/** A request with a `host` header of its own, which fetch does not send. */
async function askedAs(url: string, host: string): Promise<number> {
  const asked = request(`${url}/health`, { headers: { host } }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  await text(response);
  return response.statusCode!;
}

/** The engine, with some of its answers replaced. */
function altered(engine: TokenEngine, changes: Partial<TokenEngine>): TokenEngine {
  return new Proxy(engine, {
    get: (target, name) => {
      const value: unknown = name in changes ? changes[name as keyof TokenEngine] : Reflect.get(target, name, target);
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
    },
  });
}

describe('access', () => {
  it('asks for the key wherever a request can do something', async () => {
    await using guarded = await nanoServer({ apiKey: KEY });
    const status = async (path: string, authorization?: string, method = 'GET') => {
      const headers = { ...JSON_TYPE, ...(authorization === undefined ? {} : { authorization }) };
      return (await fetch(`${guarded.url}${path}`, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) })).status;
    };
    for (const path of ['/health', '/ping', '/version', '/metrics']) expect(await status(path)).toBe(200);
    for (const path of ['/v1/completions', '/v1/load_lora_adapter', '/tokenize', '/detokenize', '/reset_prefix_cache']) {
      for (const wrong of [undefined, '', 'Bearer', 'Bearer ', `Basic ${KEY}`, `Bearer ${KEY}x`, `Bearer ${KEY.slice(1)}`, KEY])
        expect(await status(path, wrong, 'POST')).toBe(401);
      expect(await status(path, `Bearer ${KEY}`, 'POST')).not.toBe(401);
      expect(await status(path, `bearer ${KEY}`, 'POST')).not.toBe(401);
    }
    for (const path of ['/v1/models', '/server_info', '/load', '/v1/nope']) expect(await status(path)).toBe(401);
    expect(await status('/v1/models', `Bearer ${KEY}`)).toBe(200);
  });

  it('answers on loopback only under its own names', async () => {
    const { port } = new URL(server.url);
    for (const host of ['localhost', `localhost:${port}`, '127.0.0.1', `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST'])
      expect(await askedAs(server.url, host)).toBe(200);
    for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1', '[::2]'])
      expect(await askedAs(server.url, host)).toBe(403);
    await using open = await nanoServer({ host: '0.0.0.0' });
    expect(await askedAs(open.url.replace('0.0.0.0', '127.0.0.1'), 'gpu-box.example')).toBe(200);
  });
});

describe('adapters', () => {
  const good = join(folder, 'allowed', 'good');
  const outside = join(folder, 'outside');
  beforeAll(() => {
    writeAdapter(good, { b: 0.05 });
    writeAdapter(outside, { b: 0.05 });
    symlinkSync(outside, join(folder, 'allowed', 'link'));
    symlinkSync(good, join(folder, 'inward'));
  });
  const load = (to: NanoServer, path: string, name = 'v1') => to.post('/v1/load_lora_adapter', { lora_name: name, lora_path: path });

  it('are loaded only from below the allowed directories, wherever links lead', async () => {
    await using confined = await nanoServer({ allowAdaptersUnder: [join(folder, 'allowed')] });
    for (const path of [outside, join(folder, 'allowed', 'link'), join(folder, 'allowed', '..', 'outside'), join(folder, 'nowhere'), folder, '/etc'])
      expect(await load(confined, path)).toMatchObject({ status: 403, body: { error: { type: 'PermissionDeniedError' } } });
    for (const path of ['allowed/good', '', 'good\0']) expect((await load(confined, path)).status).toBe(400);
    expect((await load(confined, join(folder, 'inward'))).status).toBe(200);
    expect((await load(confined, good, 'v2')).status).toBe(200);
    expect((await confined.get('/v1/models')).body.data.map(({ id, root }: { id: string; root: string }) => [id, root]).slice(1)).toEqual([
      ['v1', join(folder, 'inward')],
      ['v2', good],
    ]);
  });

  it('cannot be loaded by request when others can reach the server, unless it allows a directory', async () => {
    await using open = await nanoServer({ host: '0.0.0.0' });
    const answer = await answerOf(
      await fetch(`${open.url.replace('0.0.0.0', '127.0.0.1')}/v1/load_lora_adapter`, {
        method: 'POST',
        headers: JSON_TYPE,
        body: JSON.stringify({ lora_name: 'v1', lora_path: good }),
      }),
    );
    expect(answer).toMatchObject({ status: 403, body: { error: { message: expect.stringContaining('--allow-adapters-under') as string } } });
  });

  it('cannot be loaded in place, nor beyond the allowed number', async () => {
    await using small = await nanoServer({ maxAdapters: 2 });
    const inPlace = await small.post('/v1/load_lora_adapter', { lora_name: 'v1', lora_path: good, load_inplace: true });
    expect(inPlace).toMatchObject({ status: 400, body: { error: { param: 'load_inplace' } } });
    const answers = await Promise.all(['a', 'b', 'c', 'a'].map((name) => load(small, good, name)));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 400, 400]);
    expect(small.engine.adapters.length).toBe(2);
    expect((await small.post('/v1/unload_lora_adapter', { lora_name: 'a' })).status).toBe(200);
    expect((await load(small, good, 'd')).status).toBe(200);
  });

  it('are listed with the directory they came from, however they were loaded', async () => {
    await using shared = await nanoServer();
    const roots = async () => (await shared.get('/v1/models')).body.data.map(({ root }: { root: string }) => root).slice(1);
    await load(shared, join(folder, 'inward'));
    expect(await roots()).toEqual([join(folder, 'inward')]);
    shared.engine.unloadAdapter('v1');
    await shared.engine.loadAdapter({ name: 'v1', directory: outside, signal: new AbortController().signal });
    expect(await roots()).toEqual([outside]);
  });

  it('that make the model compute NaN fail alone', async () => {
    writeAdapter(join(folder, 'numeric'), { b: 1.5e38, seed: 6 });
    await using healthy = await nanoServer();
    expect((await load(healthy, join(folder, 'numeric'), 'numeric')).status).toBe(200);
    expect((await load(healthy, good, 'good')).status).toBe(200);
    const ask = (model: string, fields: object = {}) =>
      healthy.post('/v1/completions', {
        model,
        prompt: Array.from({ length: 40 }, (_, i) => 300 + i),
        max_tokens: 4,
        temperature: 0,
        logprobs: 0,
        ...fields,
      });
    const before = [await ask('nano-base'), await ask('good')].map(({ body }) => body.choices);
    for (const fields of [{}, { logprobs: null }, { stream: true }])
      expect(await ask('numeric', fields)).toMatchObject({
        status: 400,
        body: { error: { message: expect.stringMatching(/Out of range float values/) as string } },
      });
    expect([await ask('nano-base'), await ask('good')].map(({ body }) => body.choices)).toEqual(before);
    expect(healthy.failures.length).toBe(3);
  });
});

describe('status', () => {
  it('reports limits and modes where probes look for them', async () => {
    await using configured = await nanoServer({ maxLoraRank: 16, maxAdapters: 3, logProbsMode: 'processed', version: '1.2.3' });
    expect((await configured.get('/server_info?config_format=json')).body).toMatchObject({
      vllm_config: { lora_config: { max_lora_rank: 16, max_loras: 3 }, model_config: { max_model_len: 2048, logprobs_mode: 'processed_logprobs' } },
    });
    expect((await configured.get('/version')).body).toEqual({ version: '1.2.3' });
  });

  it("reports counts under vLLM's names", async () => {
    await using counted = await nanoServer();
    const metric = async (name: string) => {
      const found = new RegExp(`^vllm:${name}\\{.*\\} ([\\d.e+]+)$`, 'm').exec((await counted.get('/metrics')).text);
      return found === null ? null : Number(found[1]);
    };
    const prompt = Array.from({ length: 40 }, (_, i) => 300 + i);
    for (const stream of [false, true]) await counted.post('/v1/completions', { prompt, max_tokens: 5, ignore_eos: true, stream });
    expect(await metric('prompt_tokens_total')).toBe(80);
    expect(await metric('generation_tokens_total')).toBe(10);
    expect(await metric('prefix_cache_hits_total')).toBe(32);
    expect(await metric('num_requests_running')).toBe(0);
    expect(await metric('e2e_request_latency_seconds_count')).toBe(2);
    expect(await metric('time_to_first_token_seconds_count')).toBe(1);
    expect((await counted.get('/metrics')).text).toContain('finished_reason="length"} 2');
  });

  it('reports that the engine is gone, and keeps reporting it', async () => {
    const lost = Promise.withResolvers<Error>();
    const generate = () => Promise.reject(new EngineLostError('Expected the thread to live'));
    const failures: unknown[] = [];
    const options = {
      engine: altered(server.engine, { lost: lost.promise, generate }),
      apiKey: null,
      onFailure: (error: unknown) => failures.push(error),
    };
    const gone = await startPolicyServer(options);
    const status = async () => (await fetch(`${gone.url}/health`)).status;
    expect(await status()).toBe(200);
    lost.resolve(new Error('A thread ended'));
    await lost.promise;
    expect(await status()).toBe(503);
    const response = await fetch(`${gone.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body: '{"prompt": [300]}' });
    expect(response.headers.get('retry-after')).toBeNull();
    const answer = await answerOf(response);
    expect(answer).toMatchObject({ status: 503, body: { error: { message: expect.stringContaining('EngineCore') as string } } });
    expect(failures.length).toBe(1);
    await gone.close();
  });

  it.each([
    ['of a sampled token', { logProbs: Float32Array.of(NaN) }],
    ['of a token of the prompt', { promptLogProbs: [null, [{ id: 301, logProb: Infinity, rank: 1 }]] }],
  ])('never answers with a log-prob that is not a number, which JSON would turn into null: %s', async (_, wrong) => {
    const generate: TokenEngine['generate'] = async (asked) => ({ ...(await server.engine.generate(asked)), ...wrong });
    const failures: unknown[] = [];
    const broken = await startPolicyServer({
      engine: altered(server.engine, { generate }),
      apiKey: null,
      onFailure: (error) => failures.push(error),
    });
    const body = JSON.stringify({ prompt: [300, 301], max_tokens: 1, logprobs: 0 });
    const answer = await answerOf(await fetch(`${broken.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body }));
    expect(answer).toMatchObject({ status: 400, body: { error: { message: expect.stringContaining('Out of range float values') as string } } });
    expect(failures).toEqual([expect.objectContaining({ name: 'NotFiniteError' })]);
    await broken.close();
  });

  it('leaves no thread behind when its address is taken', async () => {
    const workers: Worker[] = [];
    const note = (worker: Worker) => workers.push(worker);
    process.on('worker', note);
    const open = { modelPath: server.engine.config.path, threads: 1, signal: new AbortController().signal };
    await expect(startPolicyServer({ open, apiKey: null, port: Number(new URL(server.url).port) })).rejects.toThrow(/in use/);
    process.off('worker', note);
    expect(workers.map(({ threadId }) => threadId)).toEqual([-1]);
  });

  it('keeps internal errors to itself', async () => {
    const failures: unknown[] = [];
    const generate = () => Promise.reject(new TypeError('secret detail'));
    const broken = await startPolicyServer({
      engine: altered(server.engine, { generate }),
      apiKey: null,
      onFailure: (error) => failures.push(error),
    });
    const answer = await answerOf(await fetch(`${broken.url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body: '{"prompt": [300]}' }));
    expect(answer).toMatchObject({ status: 500, body: { error: { message: 'Internal Server Error', type: 'InternalServerError', code: 500 } } });
    expect(failures).toEqual([expect.objectContaining({ message: 'secret detail' })]);
    await broken.close();
  });
});

describe('startPolicyServer', () => {
  it('closes an engine that it opened, but not one that it was given', async () => {
    const modelPath = join(import.meta.dirname, '../../models/nano-base');
    const own = await startPolicyServer({ open: { modelPath, threads: 1, signal: new AbortController().signal }, apiKey: null, servedName: 'mine' });
    expect(own.servedName).toBe('mine');
    await own.close();
    const one = { ...REQUEST, signal: new AbortController().signal };
    await expect(own.engine.generate(one)).rejects.toThrow(/closed/);
    const given = await startPolicyServer({ engine: server.engine, apiKey: null });
    await given.close();
    expect((await server.engine.generate(one)).ids.length).toBe(1);
  });
});

const REQUEST = {
  prompt: Int32Array.of(300),
  adapter: null,
  maxTokens: 1,
  sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: 1 },
  stop: { strings: [], includeString: false, tokenIds: [], ignoreEnd: false, minTokens: 0 },
  skipSpecialTokens: true,
  logProbs: null,
  promptLogProbs: null,
  logProbsMode: 'raw',
  allowedTokenIds: null,
  cacheSalt: null,
} as const;
