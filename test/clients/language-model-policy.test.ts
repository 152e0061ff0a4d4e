import { createOpenAI } from '@ai-sdk/openai';
import { describe, expect, test, vi } from 'vitest';
import type { LanguageModel } from '../../src/clients/language-model.ts';
import { type LanguageModelPolicyOptions, policyFromLanguageModel } from '../../src/clients/language-model-policy.ts';
import type { GenerateRequest } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ConfigError, describeError, PolicyError, PromptTooLongError, stackTrace } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { paintedStore } from '../images/painted-store.ts';
import { refusingUrl } from '../transport/loopback.ts';
import { KEY, PROVIDERS } from './sdk-providers.ts';
import { type WireAnswer, wireServer } from './wire-server.ts';

const question: readonly Message[] = [{ role: 'user', content: 'Who?' }];
const painted = await paintedStore(3, 64, 48);

const WORDS = ['<think>', 'so', '</think>', '<search>', 'q', '</search>', 'more'];

/** A stand-in for a server with a model: words until a stop string or the limit. */
const wordServer = () =>
  wireServer(async ({ dialect, stop, limit }) => {
    const kept = WORDS.slice(0, limit);
    const end = kept.findIndex((word) => stop.includes(word));
    await new Promise((resolve) => setTimeout(resolve, 3));
    return {
      content: kept.slice(0, end < 0 ? undefined : end).join(''),
      finish: end < 0 && limit < WORDS.length ? 'length' : 'stop',
      ...(end >= 0 && dialect === 'messages' ? { stopSequence: kept[end]! } : {}),
      usage: { promptTokens: 1, completionTokens: kept.length, cachedTokens: null },
    };
  });

for (const [name, model] of Object.entries(PROVIDERS)) {
  for (const stream of [false, true])
    policyClientContract(
      `policyFromLanguageModel over ${name}${stream ? ', streamed' : ''}`,
      async () => {
        const server = await wordServer();
        const versions = new PolicyVersions({ version: 0, model: 'm' });
        const client = policyFromLanguageModel(model(server.url), { versions, images: painted.store, stream });
        const dispose = async () => {
          await client.close();
          await server[Symbol.asyncDispose]();
        };
        return { client, versions, [Symbol.asyncDispose]: dispose };
      },
      {
        messages: question,
        stop: '</search>',
        control: null,
        isSlow: true,
        kind: 'chat',
        isWindowed: false,
        pictures: { ...painted, rules: null, tokens: 0 },
      },
    );
}

const forever = new AbortController().signal;
const anthropic = PROVIDERS['@ai-sdk/anthropic']!;
const chat = PROVIDERS['@ai-sdk/openai-compatible']!;
const responses = PROVIDERS['@ai-sdk/openai responses']!;

async function ask(model: LanguageModel, more: Partial<GenerateRequest<readonly Message[]>> = {}, options: LanguageModelPolicyOptions = {}) {
  const client = policyFromLanguageModel(model, { maxRetries: 0, baseDelayMs: 1, ...options });
  await using lease = await client.lease(forever);
  const sampling = { temperature: null, topP: null };
  const sample = await lease.generate({ prompt: question, sampling, maxNewTokens: 50, stop: [], signal: forever, ...more });
  return { sample, remarks: client.remarks };
}

/** The error with which the model's server is answered. */
async function failure(answer: WireAnswer, more: Parameters<typeof ask>[1] = {}, model = chat, options: LanguageModelPolicyOptions = {}) {
  await using server = await wireServer(() => answer);
  return await ask(model(server.url), more, options).then(
    () => Promise.reject(new Error('It was answered')),
    (error: PolicyError) => error,
  );
}

const search = { name: 'search', description: 'Searches.', parameters: { type: 'object', properties: { query: { type: 'string' } } } } as const;
const call = { id: 'call_1', name: 'search', arguments: '{"query": "heron"}' };

describe('policyFromLanguageModel', () => {
  test.each(Object.entries(PROVIDERS))('reads a turn of thoughts and calls, and its counts, whole and streamed: %s', async (name, model) => {
    const usage = { promptTokens: 120, completionTokens: 30, cachedTokens: name === '@ai-sdk/anthropic' ? null : 100 };
    await using server = await wireServer(() => ({ content: 'I look it up.', reasoning: 'Heron?', toolCalls: [call], usage }));
    for (const stream of [false, true]) {
      const { sample } = await ask(model(server.url), { tools: [search] }, { stream });
      const thoughts = name === '@ai-sdk/openai chat' ? {} : { reasoning: 'Heron?' };
      expect(sample).toMatchObject({ content: 'I look it up.', toolCalls: [{ id: 'call_1', name: 'search' }], finish: 'stop', ...thoughts });
      expect(JSON.parse(sample.toolCalls![0]!.arguments)).toEqual({ query: 'heron' });
      expect(sample.usage).toEqual({ ...usage, cachedTokens: usage.cachedTokens ?? 0 });
    }
  });

  test('sends thoughts back with what their provider signed, and results of tools under the names of their calls', async () => {
    await using server = await wireServer(() => ({ reasoning: 'Heron?', toolCalls: [call] }));
    const { sample } = await ask(anthropic(server.url), { tools: [search] });
    const turn: Message = { role: 'assistant', content: sample.content!, toolCalls: sample.toolCalls!, serverFields: sample.serverFields! };
    const answer: Message = { role: 'tool', content: 'Grey.', toolCallId: 'call_1' };
    await ask(anthropic(server.url), { prompt: [...question, turn, answer], tools: [search] });
    expect(server.seen[1]!.body['messages']).toMatchObject([
      { role: 'user' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Heron?', signature: 'dmYtc2VhcmNo' },
          { type: 'tool_use', id: 'call_1', name: 'search', input: { query: 'heron' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1' }] },
    ]);
  });

  test('sends a turn that was cut as its text alone: what the provider signed was another text', async () => {
    await using server = await wireServer(() => ({ reasoning: 'Heron?', content: 'It is grey. It is tall.' }));
    const { sample } = await ask(anthropic(server.url));
    const turn: Message = { role: 'assistant', content: 'It is grey.', serverFields: sample.serverFields! };
    await ask(anthropic(server.url), { prompt: [...question, turn, { role: 'user', content: 'And?' }] });
    expect((server.seen[1]!.body['messages'] as unknown[])[1]).toMatchObject({ content: [{ type: 'text', text: 'It is grey.' }] });
  });

  test('offers tools and passes fields of the request by the names of the provider', async () => {
    await using server = await wireServer(() => ({ content: 'ok' }));
    const extra = { top_k: 5, provider_options: { anthropic: { disableParallelToolUse: true } }, tool_choice: 'required' };
    await ask(anthropic(server.url), { tools: [search], sampling: { temperature: 0.5, topP: null, extra }, stop: ['</a>'] });
    expect(server.seen[0]!.body).toMatchObject({
      max_tokens: 50,
      temperature: 0.5,
      top_k: 5,
      stop_sequences: ['</a>'],
      tools: [{ name: 'search', input_schema: search.parameters }],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
    });
  });

  test('refuses a field for which the AI SDK has no setting, by its name', async () => {
    const error = await failure({ content: 'ok' }, { sampling: { temperature: null, topP: null, extra: { min_p: 0.1 } } });
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(/no setting for min_p\. Leave it out of the sampling, or give it under its provider's name/);
  });

  test('a setting that the model does not support becomes a remark, said once', async () => {
    await using server = await wireServer(() => ({ content: '<search>q</search> and more' }));
    const said: string[] = [];
    const { sample, remarks } = await ask(responses(server.url), { stop: ['</search>'] }, { onRemark: (remark) => said.push(remark) });
    expect(sample).toMatchObject({ text: '<search>q</search>', stopReason: '</search>', stopWasIgnored: true });
    expect(remarks).toEqual([expect.stringMatching(/^m of openai\.responses does not support stopSequences/)]);
    expect(said).toEqual([...remarks, expect.stringContaining('continues after a stop string')]);
  });

  test('goes without a field that the server rejects', async () => {
    const refusal = {
      status: 400,
      body: { error: { message: "Unsupported value: 'temperature' does not support 0 with this model.", param: 'temperature' } },
    };
    await using server = await wireServer(({ body }) => ('temperature' in body ? refusal : { content: 'ok' }));
    const { sample, remarks } = await ask(chat(server.url), { sampling: { temperature: 0, topP: null } });
    expect([sample.text, remarks]).toEqual(['ok', ['m of wires.chat rejected temperature: requests now go without it.']]);
  });

  test('waits for a rate limit as long as the server asks, and uses up no retry', async () => {
    const limit = { status: 429, body: { error: { message: 'Slow down' } }, headers: { 'retry-after-ms': '1' } };
    await using server = await wireServer((_, index) => (index < 2 ? limit : { content: 'ok' }));
    expect((await ask(chat(server.url))).sample.text).toBe('ok');
    expect(server.seen).toHaveLength(3);
  });

  const too = (message: string, more: object = {}) => ({ error: { message, ...more } });
  test.each([
    ['a wrong key ends the run', 401, too('Incorrect API key provided'), { endsRun: true }],
    [
      'an empty account ends the run',
      429,
      too('You exceeded your current quota', { code: 'insufficient_quota' }),
      { endsRun: true, retryable: false },
    ],
    ['a model that is not served ends the run', 404, too('The model `m` does not exist', { code: 'model_not_found' }), { endsRun: true }],
    ['a server error may pass', 500, too('Internal error'), { retryable: true, status: 500 }],
    ['a bad request is final', 400, too('Invalid schema'), { retryable: false, endsRun: false, status: 400 }],
  ])('%s', async (_, status, body, expected) => {
    for (const model of [chat, responses, anthropic]) {
      const error = await failure({ status, body }, {}, model);
      expect(error).toBeInstanceOf(PolicyError);
      expect(error).toMatchObject(expected);
    }
  });

  test('a prompt beyond the window is told from other refusals', async () => {
    const body = too("This model's maximum context length is 128000 tokens. However, your messages resulted in 128233 tokens.");
    expect(await failure({ status: 400, body })).toBeInstanceOf(PromptTooLongError);
    const long = too('prompt is too long: 210000 tokens > 200000 maximum', { type: 'invalid_request_error' });
    expect(await failure({ status: 400, body: { type: 'error', ...long } }, {}, anthropic)).toBeInstanceOf(PromptTooLongError);
  });

  test('a text that the provider withheld is a failure, never an answer', async () => {
    const withheld = { choices: [{ index: 0, finish_reason: 'content_filter', message: { role: 'assistant', content: 'I' } }], usage: {} };
    const refused = { choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: null, refusal: 'No.' } }], usage: {} };
    for (const body of [withheld, refused])
      expect(await failure({ status: 200, body })).toMatchObject({ retryable: false, message: expect.stringContaining('content filter') });
  });

  test('an end that says nothing of the turn, a cut stream and an answer that is none may pass', async () => {
    const odd = { choices: [{ index: 0, finish_reason: 'network_error', message: { role: 'assistant', content: 'I' } }], usage: {} };
    expect(await failure({ status: 200, body: odd })).toMatchObject({ retryable: true, message: expect.stringContaining('network_error') });
    expect(await failure({ status: 200, body: { hello: 1 } })).toMatchObject({ retryable: true });
    const cut = { status: 200, body: 'data: {"choices":[{"index":0,"delta":{"content":"I"}}]}\n\n' };
    expect(await failure(cut, {}, chat, { stream: true })).toMatchObject({ retryable: true });
  });

  const streaming = (start: (controller: ReadableStreamDefaultController) => void) =>
    ({
      specificationVersion: 'v4',
      provider: 'own',
      modelId: 'm',
      doGenerate: async () => ({}),
      doStream: async () => ({ stream: new ReadableStream({ start }) }),
    }) as unknown as LanguageModel;
  test.each([
    [
      'reports that it is overloaded',
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      /could not be read \(an error in its stream\): .*Overloaded/,
    ],
    ['reports a text', { type: 'error', error: 'overloaded' }, /could not be read \(an error in its stream\): .*overloaded/],
    ['breaks off', null, /^The stream of m of own was cut: reset by peer$/],
  ])('a stream that %s may pass, and does not end the run', async (_, part, message) => {
    const model = streaming((controller) => {
      controller.enqueue(part ?? { type: 'text-start', id: '0' });
      if (part === null) controller.error(new Error('reset by peer'));
      else controller.close();
    });
    await expect(ask(model, {}, { stream: true })).rejects.toMatchObject({
      retryable: true,
      endsRun: false,
      message: expect.stringMatching(message),
    });
  });

  test('an empty account that a stream reports ends the run', async () => {
    const model = streaming((controller) => {
      controller.enqueue({ type: 'error', error: { code: 'insufficient_quota', message: 'You exceeded your current quota' } });
      controller.close();
    });
    await expect(ask(model, {}, { stream: true })).rejects.toMatchObject({ retryable: false, endsRun: true });
  });

  test('a server that does not answer may answer later', async () => {
    await expect(ask(chat(await refusingUrl()))).rejects.toMatchObject({
      retryable: true,
      message: expect.stringMatching(/^m of wires\.chat did not answer: .*ECONNREFUSED/),
    });
  });

  test('a missing key ends the run with the words of the provider', async () => {
    vi.stubEnv('OPENAI_API_KEY', undefined);
    try {
      await expect(ask(createOpenAI({ baseURL: 'http://127.0.0.1:9' }).chat('m'))).rejects.toMatchObject({
        endsRun: true,
        message: expect.stringContaining('OPENAI_API_KEY'),
      });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('no message repeats the key, also where the server does', async () => {
    for (const model of Object.values(PROVIDERS))
      for (const stream of [false, true]) {
        const error = await failure({ status: 400, body: too(`The key ${KEY} may not use this`) }, {}, model, { stream });
        expect(describeError(error)).toContain('***');
        expect(describeError(error) + stackTrace(error)).not.toContain(KEY);
      }
  });

  test('takes models of the specifications before this one', async () => {
    const seen: unknown[] = [];
    const old = {
      specificationVersion: 'v2',
      provider: 'old',
      modelId: 'm2',
      supportedUrls: {},
      doGenerate: async (options: unknown) => {
        seen.push(options);
        const usage = { inputTokens: 9, outputTokens: 4, totalTokens: 13, cachedInputTokens: 8 };
        return {
          content: [{ type: 'text', text: 'ok' }],
          finishReason: 'length',
          usage,
          warnings: [{ type: 'unsupported-setting', setting: 'topP' }],
        };
      },
      doStream: async () => ({ stream: new ReadableStream() }),
    } as unknown as LanguageModel;
    const [picture] = painted.images;
    const prompt: readonly Message[] = [{ role: 'user', content: [{ type: 'image', image: picture! }] }];
    const { sample, remarks } = await ask(old, { prompt }, { images: painted.store });
    expect(sample).toMatchObject({ text: 'ok', finish: 'length', usage: { promptTokens: 9, completionTokens: 4, cachedTokens: 8 } });
    expect(remarks).toEqual(['m2 of old does not support topP']);
    expect(seen).toMatchObject([{ prompt: [{ role: 'user', content: [{ type: 'file', mediaType: 'image/png', data: expect.any(String) }] }] }]);
  });

  test.each([
    ['openai/gpt-5', /^The policy must be a model object, got "openai\/gpt-5": .*openai\('gpt-5'\)/],
    [{ specificationVersion: 'v9', doGenerate: () => {} }, /specification "v9"/],
    [{ generate: () => {} }, /is no language model of the AI SDK/],
    [null, /is no language model of the AI SDK/],
  ])('refuses what is no model in one line, with a remedy: %j', (value, text) => {
    expect(() => policyFromLanguageModel(value as never)).toThrow(text);
    expect(() => policyFromLanguageModel(value as never)).toThrow(ConfigError);
  });
});
