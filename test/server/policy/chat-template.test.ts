/** Chat templates from outside the model's directory, and chats of a model without one. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { probeReplicas } from '../../../src/clients/vllm-probe.ts';
import { VllmServer } from '../../../src/clients/vllm-server.ts';
import { VllmTokenizer } from '../../../src/clients/vllm-tokenizer.ts';
import { Random } from '../../../src/core/random.ts';
import type { ChatTokenizer } from '../../../src/tokenizer/chat-tokenizer.ts';
import { CHATML_TEMPLATE } from '../../../src/tokenizer/chatml.ts';
import { openLocalTokenizer } from '../../../src/tokenizer/local-tokenizer.ts';
import { answersOf } from '../../tokenizer/same-ids.ts';
import { bosProcessor, published, templateSource } from '../../tokenizer/template-models.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { NANO_PATH, type NanoServer, nanoServer } from './nano-server.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const signal = new AbortController().signal;
const MESSAGES = [{ role: 'user', content: 'Question: who wrote it?' }];
const CHATML = readFileSync(join(import.meta.dirname, '../../vllm/chatml.jinja'), 'utf8');

/** What this server and vLLM 0.32.0 answer for a model without a template: vLLM refuses both requests. */
const WITHOUT_TEMPLATE = [
  { path: '/tokenize', body: { messages: MESSAGES }, vllm: 400, ours: 400 },
  { path: '/v1/chat/completions', body: { messages: MESSAGES, max_tokens: 4 }, vllm: 400, ours: 200 },
];

function tokenizerOf(server: NanoServer) {
  const vllm = new VllmServer({ baseUrl: server.url, random: Random.fromSeed(0) });
  return { tokenizer: new VllmTokenizer().at({ server: vllm, model: 'nano-base', signal }), close: () => vllm.close() };
}

describe('a policy server whose model has no chat template', () => {
  it('takes the role developer for system, as vLLM does', async () => {
    await using server = await nanoServer();
    const asked = (role: string) =>
      server.post('/v1/chat/completions', { messages: [{ role, content: 'Be brief.' }, ...MESSAGES], max_tokens: 1, return_prompt_text: true });
    const [developer, system] = [await asked('developer'), await asked('system')];
    expect(developer.body.prompt_text).toContain('<|im_start|>system\nBe brief.<|im_end|>');
    expect(developer.body.prompt_text).toBe(system.body.prompt_text);
  });

  it('refuses what vLLM refuses, except for chats, which it renders in ChatML', async () => {
    await using server = await nanoServer();
    for (const { path, body, ours } of WITHOUT_TEMPLATE)
      expect({ path, status: (await server.post(path, body)).status }).toEqual({ path, status: ours });
    const { body } = await server.post('/v1/chat/completions', { messages: MESSAGES, max_tokens: 4, return_prompt_text: true });
    expect(body.prompt_text).toBe('<|im_start|>user\nQuestion: who wrote it?<|im_end|>\n<|im_start|>assistant\n');
    expect((await server.post('/tokenize', { messages: MESSAGES })).body.error.message).toMatch(/default chat template is no longer allowed/);
  });

  it('ends ChatML turns at <|im_end|>, whatever the end token of the model is', async () => {
    await using server = await nanoServer();
    const [end] = (await server.post('/tokenize', { prompt: '<|im_end|>' })).body.tokens as number[];
    const asked = { messages: MESSAGES, max_tokens: 4, allowed_token_ids: [end], return_token_ids: true, ignore_eos: true };
    const [choice] = (await server.post('/v1/chat/completions', asked)).body.choices;
    expect([choice.finish_reason, choice.token_ids]).toEqual(['stop', [end]]);
  });

  it('shows the tools and earlier calls, with their arguments as objects', async () => {
    await using server = await nanoServer();
    const call = (args: string) => ({ id: 'call00000', type: 'function', function: { name: 'now', arguments: args } });
    const messages = [
      ...MESSAGES,
      { role: 'assistant', content: null, tool_calls: [call('{"zone":"UTC"}'), call('zone: UTC')] },
      { role: 'tool', tool_call_id: 'call00000', content: '12:00' },
    ];
    const tools = [{ type: 'function', function: { name: 'now', description: 'The time.', parameters: { type: 'object' } } }];
    const { body } = await server.post('/v1/chat/completions', { messages, tools, max_tokens: 1, return_prompt_text: true });
    expect(body.prompt_text).toContain('{"type": "function", "function": {"name": "now", "description": "The time."');
    expect(body.prompt_text).toContain(
      'assistant\n<tool_call>\n{"name": "now", "arguments": {"zone": "UTC"}}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call><|im_end|>\n' +
        '<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n',
    );
    const refused = await server.post('/v1/chat/completions', { messages: [...MESSAGES, { role: 'assistant', tool_calls: ['now'] }] });
    expect(refused).toMatchObject({ status: 400, body: { error: { param: expect.stringContaining('messages.1.tool_calls.0') } } });
  });
});

describe('a policy server with a chat template from outside the model directory', () => {
  it('uses it for all routes', async () => {
    await using server = await nanoServer({ engine: { chatTemplate: '{{ messages[0].content }}!' } });
    const { body } = await server.post('/v1/chat/completions', {
      messages: MESSAGES,
      max_tokens: 1,
      return_prompt_text: true,
      return_token_ids: true,
    });
    expect(body.prompt_text).toBe('Question: who wrote it?!');
    expect((await server.post('/tokenize', { messages: MESSAGES })).body.tokens).toEqual(body.prompt_token_ids);
  });

  it('gives the template an empty content for none, as vLLM does', async () => {
    await using server = await nanoServer({ engine: { chatTemplate: '{% for message in messages %}<{{ message.content }}>{% endfor %}' } });
    const messages = [...MESSAGES, { role: 'assistant', content: null }, { role: 'assistant' }, { role: 'user', content: [] }];
    const { body } = await server.post('/v1/chat/completions', { messages, max_tokens: 1, return_prompt_text: true });
    expect(body.prompt_text).toBe('<Question: who wrote it?><><><>');
  });

  it('refuses a template that is broken when it opens', async () => {
    await expect(nanoServer({ engine: { chatTemplate: '{% if %}' } })).rejects.toMatchObject({
      name: 'EngineInputError',
      message: expect.stringMatching(/^The chat template cannot be parsed/),
    });
  });

  it('begins bare text with BOS as the client does, where the tokenizer asks for it', async () => {
    const modelPath = join(folder.path, 'with-bos');
    cpSync(NANO_PATH, modelPath, { recursive: true });
    const json = JSON.parse(readFileSync(join(modelPath, 'tokenizer.json'), 'utf8')) as { readonly added_tokens: Parameters<typeof bosProcessor>[1] };
    const withBos = { ...json, post_processor: bosProcessor('<|endoftext|>', json.added_tokens) };
    writeFileSync(join(modelPath, 'tokenizer.json'), JSON.stringify(withBos));
    await using server = await nanoServer({ servedName: 'nano-base', engine: { modelPath } });
    const { tokenizer, close } = tokenizerOf(server);
    const render = (one: ChatTokenizer, bos: 'model' | 'never') => one.render([{ role: 'user', content: 'Who?' }], { format: 'continuation', bos });
    const [whole, without] = [await render(tokenizer, 'model'), await render(tokenizer, 'never')];
    const [bos] = (await server.post('/tokenize', { prompt: '<|endoftext|>', add_special_tokens: false })).body.tokens as number[];
    expect([...whole.ids]).toEqual([bos, ...without.ids]);
    const local = await openLocalTokenizer(modelPath);
    expect([await render(local, 'model'), await render(local, 'never')]).toEqual([whole, without]);
    await close();
  });

  it.each([
    ['none', undefined],
    ['a small one', CHATML],
    ['the ChatML of this package', CHATML_TEMPLATE],
    ['the template of Qwen3', templateSource(published('qwen-3'))],
    ['the template of Qwen3-Coder', templateSource(published('qwen-3-coder'))],
  ])('gives the ids that the client gives with the same tokenizer and template: %s', async (_, chatTemplate) => {
    const template = chatTemplate === undefined ? {} : { chatTemplate };
    await using server = await nanoServer({ engine: template });
    const { tokenizer, close } = tokenizerOf(server);
    const [ours, theirs] = [await answersOf(await openLocalTokenizer(NANO_PATH, template)), await answersOf(tokenizer)];
    expect(theirs).toEqual(ours);
    expect(ours.whole.neutralised).toBeGreaterThan(3);
    expect(ours.whole.ids.slice(-ours.bridge.ids.length)).toEqual(ours.bridge.ids);
    await close();
  });
});

describe('probeReplicas', () => {
  it('refuses servers whose chat templates differ', async () => {
    const serving = (name: string) => nanoServer({ servedName: 'nano-base', engine: { chatTemplate: templateSource(published(name)) } });
    await using hermes = await serving('qwen-3');
    await using coder = await serving('qwen-3-coder');
    const probe = (...servers: readonly NanoServer[]) => probeReplicas({ baseUrls: servers.map(({ url }) => `${url}/v1`), model: null, signal });
    expect(await probe(hermes, hermes)).toMatchObject({ model: 'nano-base', toolCalls: 'hermes' });
    await expect(probe(hermes, coder)).rejects.toThrow(
      /^The servers are not replicas of one policy: toolCalls is hermes at \S+, but qwen3-coder at \S+$/,
    );
  });

  it('goes on without a server that does not answer where a quorum of others does', async () => {
    await using living = await nanoServer({ servedName: 'nano-base' });
    const dead = 'http://127.0.0.1:9/v1';
    const absent: string[] = [];
    const probe = (quorum: number) =>
      probeReplicas({
        baseUrls: [dead, `${living.url}/v1`],
        model: null,
        signal,
        maxRetries: 0,
        quorum,
        onAbsent: (baseUrl, { message }) => absent.push(`${baseUrl}: ${message}`),
      });
    expect(await probe(1)).toMatchObject({ model: 'nano-base' });
    expect(absent).toEqual([expect.stringMatching(/^http:\/\/127\.0\.0\.1:9\/v1: .*ECONNREFUSED/)]);
    await expect(probe(2)).rejects.toThrow(/ECONNREFUSED/);
  });
});
