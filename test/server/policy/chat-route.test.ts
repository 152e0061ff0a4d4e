import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OpenAIChatClient } from '../../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { policyClientContract } from '../../contracts/policy-client.ts';
import { eventsOf, NANO_PATH, type NanoServer, nanoServer } from './nano-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-chat-'));
const MESSAGES = [{ role: 'user' as const, content: 'Question: who wrote it?' }];
const SAMPLED = { messages: MESSAGES, max_completion_tokens: 10, temperature: 1, seed: 3, logprobs: true, top_logprobs: 2, return_token_ids: true };

let server: NanoServer;
beforeAll(async () => {
  const modelPath = join(folder, 'nano-base');
  cpSync(NANO_PATH, modelPath, { recursive: true });
  cpSync(join(import.meta.dirname, '../../vllm/chatml.jinja'), join(modelPath, 'chat_template.jinja'));
  server = await nanoServer({ apiKey: null, engine: { modelPath } });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

const chat = (body: object) => server.post('/v1/chat/completions', body);

policyClientContract(
  'embedded engine in chat',
  async () => {
    const versions = new PolicyVersions({ version: 0, model: server.servedName });
    const client = new OpenAIChatClient({ baseUrls: [`${server.url}/v1`], versions });
    return { client, versions, [Symbol.asyncDispose]: () => client.close() };
  },
  { kind: 'chat', messages: MESSAGES, stop: 'Drefan', control: null, isWindowed: false, isSlow: true, pictures: null },
);

describe('POST /v1/chat/completions', () => {
  it('samples what /v1/completions samples after the rendered prompt', async () => {
    const { body } = await chat({ ...SAMPLED, return_prompt_text: true });
    expect(body.prompt_text).toBe('<|im_start|>user\nQuestion: who wrote it?<|im_end|>\n<|im_start|>assistant\n');
    const completion = { prompt: body.prompt_token_ids, max_tokens: 10, temperature: 1, seed: 3, logprobs: 0, return_token_ids: true };
    const [choice] = (await server.post('/v1/completions', completion)).body.choices;
    expect(body.choices[0]).toMatchObject({ message: { role: 'assistant', content: choice.text }, token_ids: choice.token_ids });
    expect(body.choices[0].logprobs.content.map(({ logprob }: { logprob: number }) => logprob)).toEqual(choice.logprobs.token_logprobs);
    expect((await server.post('/tokenize', { messages: MESSAGES })).body.tokens).toEqual(body.prompt_token_ids);
  });

  it('shows the likeliest tokens in their order, with their bytes', async () => {
    const { content } = (await chat(SAMPLED)).body.choices[0].logprobs as {
      content: { token: string; bytes: number[]; top_logprobs: { logprob: number }[] }[];
    };
    for (const { token, bytes, top_logprobs: top } of content) {
      expect(Buffer.from(bytes).toString()).toBe(token);
      expect(top.length).toBe(2);
      expect(top[0]!.logprob).toBeGreaterThanOrEqual(top[1]!.logprob);
    }
  });

  it('streams what it gives whole, for each choice after its role', async () => {
    const whole = (await chat({ ...SAMPLED, n: 2 })).body;
    const { events, isEnded } = eventsOf((await chat({ ...SAMPLED, n: 2, stream: true, stream_options: { include_usage: true } })).text);
    expect(isEnded).toBe(true);
    const parts = events.flatMap((event) => event.choices.map((choice: object) => choice));
    for (const index of [0, 1]) {
      const [opening, ...own] = parts.filter((part) => part.index === index);
      expect(opening).toMatchObject({ delta: { role: 'assistant', content: '' }, finish_reason: null });
      expect(own.map((part) => part.delta.content as string).join('')).toBe(whole.choices[index].message.content);
      expect(own.flatMap((part) => part.token_ids as number[])).toEqual(whole.choices[index].token_ids);
      expect(own.flatMap((part) => part.logprobs.content as object[])).toEqual(whole.choices[index].logprobs.content);
      expect(own.at(-1)).toMatchObject({ finish_reason: whole.choices[index].finish_reason, stop_reason: null });
    }
    expect(events.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: whole.usage.prompt_tokens, completion_tokens: 20 } });
    expect(events[0].prompt_token_ids).toEqual(whole.prompt_token_ids);
  });

  it('continues an unfinished message', async () => {
    const messages = [...MESSAGES, { role: 'assistant', content: '<think>' }];
    const fields = { ...SAMPLED, messages, continue_final_message: true, add_generation_prompt: false, return_prompt_text: true };
    const { body } = await chat(fields);
    expect(body.prompt_text.endsWith('assistant\n<think>')).toBe(true);
    expect(body.choices[0].message.role).toBe('assistant');
  });

  it('takes the room that the window leaves where no length is asked for', async () => {
    const { body } = await chat({ messages: MESSAGES, temperature: 0, ignore_eos: true });
    expect(body.usage.total_tokens).toBe(2048);
    expect(body.choices[0].finish_reason).toBe('length');
  });

  it.each([
    ['an image', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] }, 'body.messages.0.content.0'],
    ['a template of its own', { chat_template: '{{ 1 }}' }, 'chat_template'],
    ['a tool that must be called', { tool_choice: 'required' }, 'tool_choice'],
    ['likeliest tokens without log-probs', { logprobs: false }, 'top_logprobs'],
    ['guided output', { response_format: { type: 'json_object' } }, 'response_format'],
    ['no messages', { messages: [] }, 'body.messages'],
  ])('refuses %s', async (_, fields, param) => {
    expect(await chat({ ...SAMPLED, ...fields })).toMatchObject({ status: 400, body: { error: { param } } });
  });

  it("answers OpenAI's own client, whole and streamed", async () => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const asked = { model: server.servedName, messages: MESSAGES, max_completion_tokens: 8, temperature: 0 };
    const whole = await client.chat.completions.create(asked);
    let streamed = '';
    for await (const part of await client.chat.completions.create({ ...asked, stream: true })) streamed += part.choices[0]?.delta.content ?? '';
    expect(whole.choices[0]!.message.content).not.toBe('');
    expect(streamed).toBe(whole.choices[0]!.message.content);
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([server.servedName]);
    await expect(client.chat.completions.create({ ...asked, model: 'nope' })).rejects.toMatchObject({ status: 404, param: 'model' });
  });
});
