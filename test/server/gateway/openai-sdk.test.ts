/** What the `openai` package makes of answers, streams and refusals. */
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { AgentRefusal } from '../../../src/agents/agent-refusal.ts';
import { LOOP, scriptedGateway, type ScriptedGateway, turnOf } from './scripted-session.ts';

const clientOf = ({ baseURL, apiKey }: ScriptedGateway) => new OpenAI({ baseURL, apiKey, maxRetries: 0 });

async function listOf<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const user = { role: 'user' as const, content: 'Which colour?' };
const tools = [{ type: 'function' as const, function: { name: 'find', parameters: { type: 'object' } } }];
const logProbs = [
  { text: 'It', logProb: -0.5, top: [{ text: 'It', logProb: -0.5 }] },
  { text: ' ☉', logProb: -1, top: [{ text: ' ☉', logProb: -1 }] },
];

describe('openai, Chat Completions', () => {
  it('accumulates a streamed turn with two calls, its finish reason and its usage', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const stream = clientOf(gateway).chat.completions.stream({ model: 'm', messages: [user], tools, stream_options: { include_usage: true } });
    const { choices, usage, model } = await stream.finalChatCompletion();
    expect([model, choices[0]!.finish_reason, choices[0]!.message.content]).toEqual(['m', 'tool_calls', 'Let me look.\n\n']);
    const calls = choices[0]!.message.tool_calls!.map((call) => call.type === 'function' && [call.id, call.function.arguments]);
    expect(calls).toEqual([
      ['call00001', '{"query": "heron \\u2609"}'],
      ['call00002', '{"query": "grey"}'],
    ]);
    expect(usage).toEqual({ prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 });
  });

  it('gets n answers, whole and streamed', async () => {
    const script = () => [turnOf({ content: 'one' }), turnOf({ content: 'two', finish: 'length' })];
    await using gateway = await scriptedGateway(script);
    const body = { model: 'm', messages: [user], n: 2 };
    const whole = await clientOf(gateway).chat.completions.create(body);
    const streamed = await clientOf(gateway).chat.completions.stream(body).finalChatCompletion();
    for (const { choices } of [whole, streamed])
      expect(choices.map(({ message, finish_reason: finish }) => [message.content, finish])).toEqual([
        ['one', 'stop'],
        ['two', 'length'],
      ]);
    expect(whole.usage!.completion_tokens).toBe(6);
    expect(gateway.asked.map(({ settings }) => settings.n)).toEqual([2, 2]);
  });

  it('gets log-probs where it asks for them, and a refusal where the policy gives none', async () => {
    await using gateway = await scriptedGateway((_, i) => turnOf({ content: 'It ☉', ...(i < 3 ? { logProbs } : {}) }));
    const body = { model: 'm', messages: [user], logprobs: true, top_logprobs: 1 };
    const [whole, streamed] = [
      await clientOf(gateway).chat.completions.create(body),
      await clientOf(gateway).chat.completions.stream(body).finalChatCompletion(),
    ];
    for (const { choices } of [whole, streamed])
      expect(choices[0]!.logprobs!.content).toEqual([
        { token: 'It', logprob: -0.5, bytes: [73, 116], top_logprobs: [{ token: 'It', logprob: -0.5, bytes: [73, 116] }] },
        { token: ' ☉', logprob: -1, bytes: [32, 226, 152, 137], top_logprobs: [{ token: ' ☉', logprob: -1, bytes: [32, 226, 152, 137] }] },
      ]);
    expect((await clientOf(gateway).chat.completions.create({ model: 'm', messages: [user] })).choices[0]!.logprobs).toBeNull();
    await expect(clientOf(gateway).chat.completions.create(body)).rejects.toMatchObject({ status: 400, param: 'logprobs' });
  });

  it('parses an answer against a schema, which the policy is told', async () => {
    await using gateway = await scriptedGateway(() => turnOf({ content: '{"colour":"grey"}' }));
    const format = zodResponseFormat(z.object({ colour: z.string() }), 'bird');
    const { choices } = await clientOf(gateway).chat.completions.parse({ model: 'm', messages: [user], response_format: format });
    expect(choices[0]!.message.parsed).toEqual({ colour: 'grey' });
    expect(gateway.asked[0]!.settings.jsonSchema).toMatchObject({ type: 'object', required: ['colour'] });
  });

  it('raises an error of its own kind that names the key', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const asked = clientOf(gateway).chat.completions.create({ model: 'm', messages: [user], logit_bias: { 5: 1 } });
    await expect(asked).rejects.toThrow(OpenAI.BadRequestError);
    await expect(asked).rejects.toMatchObject({ param: 'logit_bias', message: expect.stringContaining('logit_bias cannot be honoured here') });
    expect(gateway.asked).toEqual([]);
  });

  it('raises what fails early as a status and what fails late within the stream', async () => {
    const late = Promise.withResolvers<never>();
    await using gateway = await scriptedGateway((_, i) => {
      if (i === 0) throw new AgentRefusal(502, null, 'The policy failed.');
      return late.promise;
    });
    const body = { model: 'm', messages: [user], stream: true as const };
    await expect(clientOf(gateway).chat.completions.create(body)).rejects.toMatchObject({ status: 502, type: 'server_error' });
    const stream = await clientOf(gateway).chat.completions.create(body);
    late.reject(new AgentRefusal(502, null, 'The policy failed late.'));
    await expect(listOf(stream)).rejects.toThrow('The policy failed late.');
  });
});

describe('openai, Responses', () => {
  it('accumulates a streamed turn: thoughts, text, calls, usage', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const body = {
      model: 'm',
      input: 'Which colour?',
      tools: [{ type: 'function' as const, name: 'find', parameters: { type: 'object' }, strict: false }],
    };
    const streamed = await clientOf(gateway).responses.stream(body).finalResponse();
    const whole = await clientOf(gateway).responses.create(body);
    for (const { output, output_text: text, usage, status } of [streamed, whole]) {
      expect([text, status, usage!.total_tokens]).toEqual(['Let me look.\n\n', 'completed', 14]);
      expect(output.map(({ type }) => type)).toEqual(['reasoning', 'message', 'function_call', 'function_call']);
      expect(output[2]).toMatchObject({ call_id: 'call00001', arguments: '{"query": "heron \\u2609"}' });
    }
  });

  it('numbers the events of a stream from 0 on without a gap', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const events = await listOf(await clientOf(gateway).responses.create({ model: 'm', input: 'x', stream: true }));
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, i) => i));
    expect(events.at(-1)!.type).toBe('response.completed');
  });

  it('says that an answer was cut at its limit', async () => {
    await using gateway = await scriptedGateway(() => turnOf({ content: 'It is', finish: 'length' }));
    const body = { model: 'm', input: 'x', max_output_tokens: 2 };
    const [whole, streamed] = [await clientOf(gateway).responses.create(body), await clientOf(gateway).responses.stream(body).finalResponse()];
    for (const { status, incomplete_details: details } of [whole, streamed])
      expect([status, details]).toEqual(['incomplete', { reason: 'max_output_tokens' }]);
  });

  it('goes on from an answer by its id, names its items by theirs, and gets it again', async () => {
    await using gateway = await scriptedGateway((_, i) => turnOf({ content: `answer ${i}` }));
    const client = clientOf(gateway);
    const first = await client.responses.create({ model: 'm', input: 'one', instructions: 'Be brief.' });
    const second = await client.responses.create({ model: 'm', input: 'two', previous_response_id: first.id });
    await client.responses.create({ model: 'm', input: 'three', previous_response_id: second.id, instructions: 'Be brief.' });
    expect(gateway.asked[2]!.messages.map(({ role, content }) => `${role}: ${content as string}`)).toEqual([
      'system: Be brief.',
      'user: one',
      'assistant: answer 0',
      'user: two',
      'assistant: answer 1',
      'user: three',
    ]);
    const reference = { type: 'item_reference' as const, id: first.output[0]!.id! };
    await client.responses.create({ model: 'm', input: [{ role: 'user', content: 'one' }, reference, { role: 'user', content: 'again' }] });
    expect(gateway.asked[3]!.messages.map(({ content }) => content)).toEqual(['one', 'answer 0', 'again']);
    expect((await client.responses.retrieve(first.id)).output).toEqual(first.output);
    await expect(client.responses.retrieve('resp_none')).rejects.toThrow(OpenAI.NotFoundError);
    await expect(client.responses.create({ model: 'm', input: 'x', previous_response_id: 'resp_none' })).rejects.toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
  });

  it('repeats in its answer what the request said', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const client = clientOf(gateway);
    const first = await client.responses.create({ model: 'm', input: 'one' });
    expect(first).toMatchObject({
      instructions: null,
      previous_response_id: null,
      metadata: {},
      truncation: 'disabled',
      store: true,
      temperature: 1,
    });
    const said = {
      previous_response_id: first.id,
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      user: 'me',
      reasoning: { effort: 'low' as const },
      truncation: 'auto' as const,
      store: false,
      temperature: 0.5,
      tool_choice: 'none' as const,
    };
    const text = { verbosity: 'low' as const };
    const body = { model: 'm', input: 'two', ...said, text };
    for (const answer of [await client.responses.create(body), await client.responses.stream(body).finalResponse()])
      expect(answer).toMatchObject({ ...said, text: { ...text, format: { type: 'text' } } });
  });

  it('keeps two answers in a row apart, by the ids of their items', async () => {
    await using gateway = await scriptedGateway((_, i) => turnOf({ content: `answer ${i}`, ...(i === 1 ? { reasoning: 'Hm.' } : {}) }));
    const client = clientOf(gateway);
    const first = await client.responses.create({ model: 'm', input: 'one' });
    const second = await client.responses.create({ model: 'm', input: [], previous_response_id: first.id });
    await client.responses.create({ model: 'm', input: 'two', previous_response_id: second.id });
    const [thoughts, said] = second.output;
    // A client leaves ids of texts out.
    const input = [{ role: 'user', content: 'one' }, ...first.output, thoughts!, { ...said!, id: undefined }, { role: 'user', content: 'two' }];
    await client.post('/responses', { body: { model: 'm', input } });
    for (const { messages } of gateway.asked.slice(2)) expect(messages.map(({ content }) => content)).toEqual(['one', 'answer 0', 'answer 1', 'two']);
  });

  it('keeps nothing where the request says store: false', async () => {
    await using gateway = await scriptedGateway(LOOP);
    const { id } = await clientOf(gateway).responses.create({ model: 'm', input: 'x', store: false });
    await expect(clientOf(gateway).responses.retrieve(id)).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('gets log-probs where it includes them', async () => {
    await using gateway = await scriptedGateway(() => turnOf({ content: 'It ☉', logProbs }));
    const body = { model: 'm', input: 'x', include: ['message.output_text.logprobs' as const], top_logprobs: 1 };
    const [whole, streamed] = [await clientOf(gateway).responses.create(body), await clientOf(gateway).responses.stream(body).finalResponse()];
    for (const { output } of [whole, streamed])
      expect(output[0]).toMatchObject({
        content: [
          {
            logprobs: [
              { token: 'It', logprob: -0.5 },
              { token: ' ☉', bytes: [32, 226, 152, 137] },
            ],
          },
        ],
      });
  });

  it('raises what fails within a stream', async () => {
    const late = Promise.withResolvers<never>();
    await using gateway = await scriptedGateway(() => late.promise);
    const stream = await clientOf(gateway).responses.create({ model: 'm', input: 'x', stream: true });
    late.reject(new AgentRefusal(400, 'messages', 'Too long.', 'context_length_exceeded'));
    await expect(listOf(stream)).rejects.toMatchObject({ code: 'context_length_exceeded', message: expect.stringContaining('Too long.') });
  });

  it('calls a tool of a namespace by both parts of its name', async () => {
    await using gateway = await scriptedGateway(() => turnOf({ toolCalls: [{ id: 'c1', name: 'agents__find', arguments: '{}' }] }));
    const functionOf = (name: string) => ({ type: 'function', name, parameters: { type: 'object' }, strict: false });
    const offered = [functionOf('find'), { type: 'namespace', name: 'agents', description: '', tools: [functionOf('find')] }];
    const answer = await clientOf(gateway).post('/responses', {
      body: {
        model: 'm',
        input: 'x',
        tools: offered,
      },
    });
    expect(gateway.asked[0]!.tools.map(({ name }) => name)).toEqual(['find', 'agents__find']);
    expect(answer).toMatchObject({ output: [{ type: 'function_call', name: 'find', namespace: 'agents' }] });
    const { output } = answer as { readonly output: readonly object[] };
    const result = { type: 'function_call_output', call_id: 'c1', output: 'grey' };
    await clientOf(gateway).post('/responses', { body: { model: 'm', input: [{ role: 'user', content: 'x' }, ...output, result], tools: offered } });
    expect(gateway.asked[1]!.messages[1]!.toolCalls).toEqual([{ id: 'c1', name: 'agents__find', arguments: '{}' }]);
  });
});

it('lists the models of its session', async () => {
  await using gateway = await scriptedGateway(LOOP);
  const models = await listOf(await clientOf(gateway).models.list());
  expect(models.map(({ id }) => id)).toEqual(['policy']);
  expect(await clientOf(gateway).models.retrieve('policy')).toMatchObject({ id: 'policy', object: 'model' });
  await expect(clientOf(gateway).models.retrieve('other')).rejects.toThrow(OpenAI.NotFoundError);
});
