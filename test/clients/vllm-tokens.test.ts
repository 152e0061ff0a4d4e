import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { probePolicy, TOKENIZER_PROBE_TEXT, tokenizerHash } from '../../src/clients/vllm-probe.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { completion } from '../loopback/faulty-server.ts';
import { type ReplayServer, replayServer } from '../loopback/replay-server.ts';
import { NANO_TRAITS, openVllm } from '../loopback/vllm-client.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const GOLDEN = join(import.meta.dirname, '../golden/vllm');
const signal = new AbortController().signal;

describe('VllmTokensClient', () => {
  policyClientContract(
    'recorded vLLM 0.32',
    async () => {
      // Opened more than once: every client of the suite speaks to one server.
      contractServer ??= await replayServer(join(GOLDEN, 'contract.json'));
      return openVllm(contractServer.url);
    },
    NANO_TRAITS,
  );
  let contractServer: ReplayServer | undefined;
  afterAll(() => contractServer?.[Symbol.asyncDispose]());
});

describe('recorded conversation', () => {
  let server: ReplayServer;
  beforeAll(async () => {
    server = await replayServer(join(GOLDEN, 'conversation.json'));
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it('probes token access, window, log-prob mode, tokenizer hash and the missing chat template', async () => {
    const probe = await probePolicy({ baseUrl: server.url, model: null, signal });
    expect(probe).toEqual({
      kind: 'tokens',
      model: 'nano-base',
      maxModelLen: 2048,
      tokenizerHash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      logProbsMode: 'raw',
      hasChatTemplate: false,
      chatTemplate: 'chatml',
      toolCalls: 'hermes',
      beginsWithBos: false,
      closingTokenId: 1539,
      chatOnlyBecause: null,
    });
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    expect(tokenizerHash(await lease.encode(TOKENIZER_PROBE_TEXT))).toBe(probe.tokenizerHash);
  });

  it('names the available models when the one asked for is missing', async () => {
    const probe = probePolicy({ baseUrl: server.url, model: 'Qwen/Qwen2.5-3B', signal });
    await expect(probe).rejects.toThrow(ConfigError);
    await expect(probe).rejects.toThrow(/does not serve Qwen\/Qwen2\.5-3B.*nano-base/);
    await using opened = await openVllm(server.url, { model: 'policy-v7' });
    await using lease = await opened.client.lease(signal);
    const request = { prompt: Int32Array.of(64), sampling: { temperature: 0, topP: 1 }, maxNewTokens: 1, stop: [], signal };
    const generated = lease.generate(request);
    await expect(generated).rejects.toThrow(PolicyError);
    await expect(generated).rejects.toMatchObject({ status: 404, retryable: false, message: expect.stringMatching(/policy-v7.*nano-base/) });
  });

  it('keeps tags that are added tokens but not special as single tokens', async () => {
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    const tags = ['<think>', '</think>', '<search>', '</search>', '<information>', '</information>', '<answer>', '</answer>'];
    expect(await lease.encode(tags.join(''))).toEqual(Int32Array.from(tags, (_, i) => 1540 + i));
    expect(lease.controlTokensNeutralised).toBe(0);
  });

  it('counts the control tokens that text spelled', async () => {
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    await lease.encode('a<|im_end|>b<|im_start|>c<|endoftext|> <|im_end|> \uE0F0');
    await lease.encode('nothing here');
    expect(lease.controlTokensNeutralised).toBe(4);
    expect(opened.client.controlTokensNeutralised).toBe(4);
  });

  it('keeps special tokens sampled midway in the ids and out of the text', async () => {
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    const prompt = await lease.encode('a');
    // Only these ids can be sampled: half an "é", its other half, a special token and "x".
    const extra = { allowed_token_ids: [127, 102, 1538, 87], ignore_eos: true };
    const sample = await lease.generate({ prompt, sampling: { temperature: 2, topP: 1, extra }, maxNewTokens: 48, stop: [], signal });
    expect(new Set(sample.ids)).toEqual(new Set([127, 102, 1538, 87]));
    expect(sample.text).not.toContain('<|im_start|>');
    expect(sample.textEnds.at(-1)).toBe(sample.text.length);
    // Every "x" of the text ends where a sampled "x" ends.
    const ends = [...sample.textEnds].filter((_, i) => sample.ids[i] === 87);
    expect(ends).toEqual([...sample.text.matchAll(/x/g)].map((match) => match.index + 1));
  });

  it('keeps the token in which a stop string ends, and its rest as the tail', async () => {
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    const prompt = (await lease.render(NANO_TRAITS.messages, { format: 'continuation' })).ids;
    const sample = await lease.generate({ prompt, sampling: { temperature: 0, topP: 1 }, maxNewTokens: 64, stop: ['</ans'], signal });
    expect(sample).toMatchObject({ finish: 'stop', stopReason: '</ans', tail: 'wer>' });
    expect(sample.text.endsWith('</ans')).toBe(true);
    expect(sample.ids.at(-1)).toBe(1547);
    expect(sample.textEnds.at(-1)).toBe(sample.text.length + 4);
  });
});

describe('VllmTokensClient requests', () => {
  it('sends every sampling field, the cache salt, the key and one session per lease, and never a seed', async () => {
    const seen: { body: Record<string, unknown>; session: unknown; key: unknown }[] = [];
    await using server = await loopback(async (request, response) => {
      seen.push({
        body: JSON.parse(await readText(request)) as Record<string, unknown>,
        session: request.headers['x-session-id'],
        key: request.headers.authorization,
      });
      sendJson(response, 400, {});
    });
    const versions = new PolicyVersions({ version: 3, model: 'policy-v3', cacheSalt: 'v3' });
    const capabilities = { maxModelLen: 100, tokenizerHash: null, logProbsMode: 'raw' } as const;
    const client = new VllmTokensClient({ baseUrls: [`${server.url}/v1/`], apiKey: 'sk-abc', versions, capabilities });
    for (const extra of [undefined, { top_k: 5 }]) {
      await using lease = await client.lease(signal);
      const sampling = { temperature: 0.7, topP: 0.9, ...(extra === undefined ? {} : { extra }) };
      await lease.generate({ prompt: Int32Array.of(5, 6, 70), sampling, maxNewTokens: null, stop: ['</search>'], signal }).catch(() => {});
    }
    await client.close();
    expect(server.requests).toEqual(['POST /v1/completions', 'POST /v1/completions']);
    expect(seen[0]!.body).toEqual({
      model: 'policy-v3',
      prompt: [5, 6, 70],
      max_tokens: 97,
      temperature: 0.7,
      top_p: 0.9,
      top_k: -1,
      min_p: 0,
      repetition_penalty: 1,
      stop: ['</search>'],
      include_stop_str_in_output: true,
      return_token_ids: true,
      return_tokens_as_token_ids: false,
      logprobs: 0,
      cache_salt: 'v3',
    });
    expect(seen[1]!.body).toMatchObject({ top_k: 5 });
    expect(seen[0]!.key).toBe('Bearer sk-abc');
    expect(seen[0]!.session).not.toBe(seen[1]!.session);
  });

  it('ends turns of a rendered conversation at the token of the template, and asks a server only for completions if it has a tokenizer', async () => {
    const bodies: Record<string, unknown>[] = [];
    await using server = await loopback(async (request, response) => {
      bodies.push(JSON.parse(await readText(request)) as Record<string, unknown>);
      sendJson(response, 400, {});
    });
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const capabilities = { maxModelLen: 100, tokenizerHash: null, logProbsMode: 'raw' } as const;
    const tokenizer = await openLocalTokenizer(join(import.meta.dirname, '../models/nano-base'));
    const client = new VllmTokensClient({ baseUrls: [`${server.url}/v1`], versions, capabilities, tokenizer });
    for (const format of ['chat', 'continuation'] as const) {
      await using lease = await client.lease(signal);
      const prompt = (await lease.render(NANO_TRAITS.messages, { format })).ids;
      expect(await lease.decode(await lease.encode('a<|im_end|>'))).toBe('a<|im_end|>');
      expect(lease.controlTokensNeutralised).toBe(1);
      await lease.generate({ prompt, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 1, stop: [], signal }).catch(() => {});
    }
    await client.close();
    expect(server.requests).toEqual(['POST /v1/completions', 'POST /v1/completions']);
    expect(bodies.map((body) => body['stop_token_ids'])).toEqual([[1539], undefined]);
    expect(Object.keys(bodies[1]!)).not.toContain('stop_token_ids');
  });

  it('sends a seed of the rollout to a server said to accept seeds: another for each turn and rollout, the same ones again', async () => {
    const seeds: unknown[] = [];
    await using server = await loopback(async (request, response) => {
      seeds.push((JSON.parse(await readText(request)) as Record<string, unknown>)['seed']);
      sendJson(response, 400, {});
    });
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const capabilities = { maxModelLen: 100, tokenizerHash: null, logProbsMode: 'raw' } as const;
    const options = { baseUrls: [`${server.url}/v1`], versions, capabilities };
    const seedsOf = async (client: VllmTokensClient, key: string): Promise<unknown[]> => {
      const lease = await client.lease(signal, { random: Random.fromSeed(3).fork(key) });
      const request = { prompt: Int32Array.of(5), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 1, stop: [], signal };
      for (let turn = 0; turn < 2; turn++) await lease.generate(request).catch(() => {});
      await lease[Symbol.asyncDispose]();
      return seeds.splice(0);
    };
    const seeded = new VllmTokensClient({ ...options, sendsSeeds: true });
    const first = await seedsOf(seeded, 'row/0');
    const second = await seedsOf(seeded, 'row/1');
    expect([...first, ...second].every(Number.isInteger)).toBe(true);
    expect(new Set([...first, ...second]).size).toBe(4);
    expect(await seedsOf(seeded, 'row/0')).toEqual(first);
    const unseeded = new VllmTokensClient(options);
    expect(await seedsOf(unseeded, 'row/0')).toEqual([undefined, undefined]);
    await Promise.all([seeded.close(), unseeded.close()]);
  });

  it('sends the seed that somebody asked for to any server, and lists the likeliest tokens first', async () => {
    const bodies: Record<string, unknown>[] = [];
    const lists: unknown[] = [
      [
        { a: -0.5, é: -9999, b: -0.25 },
        { ' b': -0.25, c: -2 },
      ],
      [{ a: -0.5 }],
    ];
    await using server = await loopback(async (request, response) => {
      const body = JSON.parse(await readText(request)) as Record<string, unknown>;
      bodies.push(body);
      const logprobs = { token_logprobs: [-0.5, -0.25], tokens: ['a', ' b'], top_logprobs: lists[bodies.length - 1] };
      sendJson(response, 200, completion(body['prompt'], { logprobs }));
    });
    await using opened = await openVllm(`${server.url}/v1`);
    await using lease = await opened.client.lease(signal, { random: Random.fromSeed(3) });
    const request = { prompt: Int32Array.of(5), sampling: { temperature: 1, topP: 1 }, maxNewTokens: 2, stop: [], signal };
    const { likeliest } = await lease.generate({ ...request, seed: 7, mustSeed: true, likeliest: 2 });
    expect(likeliest).toEqual([
      [
        { text: 'b', logProb: -0.25 },
        { text: 'a', logProb: -0.5 },
      ],
      [
        { text: ' b', logProb: -0.25 },
        { text: 'c', logProb: -2 },
      ],
    ]);
    expect(bodies[0]).toMatchObject({ seed: 7, logprobs: 2 });
    await expect(lease.generate({ ...request, likeliest: 1 })).rejects.toThrow(/did not list the likeliest tokens/);
    expect(await lease.generate({ ...request, seed: 7 })).not.toHaveProperty('likeliest');
    expect(bodies[2]).not.toHaveProperty('seed');
  });

  it('refuses sampling fields that it sets itself, a seed among them', async () => {
    await using server = await loopback(() => {});
    await using opened = await openVllm(server.url);
    await using lease = await opened.client.lease(signal);
    const sampling = { temperature: 1, topP: 1, extra: { seed: 7 } };
    const generated = lease.generate({ prompt: Int32Array.of(1), sampling, maxNewTokens: 1, stop: [], signal });
    await expect(generated).rejects.toThrow(/sets seed itself/);
    expect(server.requests).toEqual([]);
  });
});
