/** The policy as a model of the AI SDK, asked by the real SDK. */
import { APICallError, type LanguageModelV4CallOptions } from '@ai-sdk/provider';
import { generateText, isStepCount, Output, streamText, tool, ToolLoopAgent } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { AgentRefusal } from '../../src/agents/agent-refusal.ts';
import type { AgentRequest, AgentTurn } from '../../src/agents/agent-request.ts';
import { untilAborted } from '../../src/core/abort.ts';
import { languageModelOf } from '../../src/agents/language-model.ts';

const usage = { promptTokens: 12, completionTokens: 5, cachedTokens: 8 };

/** A policy that answers by a script, and what it was asked. */
function scripted(...turns: readonly (Partial<AgentTurn> | Error)[]) {
  const seen: AgentRequest[] = [];
  const model = languageModelOf('policy', async (request) => {
    const turn = turns[Math.min(seen.push(request) - 1, turns.length - 1)]!;
    if (turn instanceof Error) throw turn;
    return [{ content: '', toolCalls: [], finish: 'stop', usage, ...turn }];
  });
  return { model, seen };
}

const call = { id: 'call00000', name: 'find', arguments: '{"query": "heron"}' };
const find = tool({ description: 'Finds.', inputSchema: z.object({ query: z.string() }), execute: async ({ query }) => `Doc on ${query}` });
const loop = [{ content: 'Let me look.', reasoning: 'Heron?', toolCalls: [call] }, { content: 'It is grey.' }] as const;
const prompt = [{ role: 'user', content: [{ type: 'text', text: 'Who?' }] }] satisfies LanguageModelV4CallOptions['prompt'];

describe('languageModelOf', () => {
  it('answers generateText with thoughts, text, counts and what the answer is called', async () => {
    const { model, seen } = scripted({ content: 'Grey.', reasoning: 'Heron?', stopSequence: '</a>' });
    const result = await generateText({
      model,
      system: 'Be brief.',
      prompt: 'Which colour?',
      temperature: 0.5,
      topP: 0.9,
      topK: 4,
      maxOutputTokens: 7,
      stopSequences: ['</a>'],
      seed: 3,
      presencePenalty: 1,
      frequencyPenalty: -1,
    });
    expect(result).toMatchObject({ text: 'Grey.', reasoningText: 'Heron?', finishReason: 'stop' });
    expect(result.usage).toMatchObject({ inputTokens: 12, outputTokens: 5, inputTokenDetails: { cacheReadTokens: 8, noCacheTokens: 4 } });
    expect(result.response).toMatchObject({ id: 'vf-1', modelId: 'policy', timestamp: expect.any(Date) });
    expect(result.providerMetadata).toEqual({ 'vf-search': { stopSequence: '</a>' } });
    expect(result.warnings).toEqual([]);
    expect(seen).toEqual([
      {
        model: 'policy',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Which colour?' },
        ],
        tools: [],
        settings: {
          temperature: 0.5,
          topP: 0.9,
          maxTokens: 7,
          stop: ['</a>'],
          seed: 3,
          toolChoice: 'auto',
          extra: { top_k: 4, presence_penalty: 1, frequency_penalty: -1 },
        },
        keys: { messages: 'prompt', toolChoice: 'toolChoice', jsonSchema: 'responseFormat' },
        isStreamed: false,
        unhonoured: [],
      },
    ]);
  });

  it('plays the loop of an agent: its calls by their ids, its thoughts, and the results as the SDK tells them', async () => {
    const { model, seen } = scripted(...loop);
    const { text, steps } = await new ToolLoopAgent({ model, tools: { find }, stopWhen: isStepCount(4) }).generate({ prompt: 'Which colour?' });
    expect([text, steps.length, steps[0]!.finishReason]).toEqual(['It is grey.', 2, 'tool-calls']);
    expect(seen[0]!.tools).toMatchObject([
      { name: 'find', description: 'Finds.', parameters: { type: 'object', required: ['query'], additionalProperties: false } },
    ]);
    expect(seen[1]!.messages.slice(1)).toEqual([
      {
        role: 'assistant',
        content: 'Let me look.',
        toolCalls: [{ id: 'call00000', name: 'find', arguments: '{"query":"heron"}' }],
        serverFields: { reasoning_content: 'Heron?' },
      },
      { role: 'tool', content: 'Doc on heron', toolCallId: 'call00000' },
    ]);
  });

  it('streams the same: text, thoughts, the input of calls, and the end with its counts', async () => {
    const { model, seen } = scripted(...loop);
    const result = streamText({ model, tools: { find }, stopWhen: isStepCount(4), prompt: 'Which colour?' });
    const types: string[] = [];
    for await (const part of result.stream) types.push(part.type);
    const shown = types.filter((type) => /^(reasoning|text|tool)-/.test(type)).join(' ');
    expect(shown).toBe(
      'reasoning-start reasoning-delta reasoning-end text-start text-delta text-end tool-input-start tool-input-delta tool-input-end tool-call tool-result text-start text-delta text-end',
    );
    expect([await result.text, (await result.totalUsage).outputTokens]).toEqual(['It is grey.', 10]);
    expect(seen.map(({ isStreamed }) => isStreamed)).toEqual([true, true]);
  });

  it('reads a message anew that the agent changed in place', async () => {
    const { model, seen } = scripted({ content: 'Grey.' });
    const input = { query: 'heron' };
    const question = { type: 'text' as const, text: 'Who?' };
    const asked = [
      { role: 'user' as const, content: [question] },
      { role: 'assistant' as const, content: [{ type: 'tool-call' as const, toolCallId: 'a', toolName: 'find', input }] },
    ];
    await model.doGenerate({ prompt: asked });
    question.text = 'Which one?';
    input.query = 'crane';
    await model.doGenerate({ prompt: asked });
    expect(seen.map(({ messages }) => [messages[0]!.content, messages[1]!.toolCalls![0]!.arguments])).toEqual([
      ['Who?', '{"query":"heron"}'],
      ['Which one?', '{"query":"crane"}'],
    ]);
  });

  it('hands over the arguments of a call as the policy wrote them, also where they are no JSON', async () => {
    const broken = { ...call, arguments: '{"query": "her' };
    const { content } = await scripted({ toolCalls: [broken] }).model.doGenerate({ prompt });
    expect(content).toEqual([{ type: 'tool-call', toolCallId: 'call00000', toolName: 'find', input: '{"query": "her' }]);
    const { model, seen } = scripted({ toolCalls: [broken] }, { content: 'Sorry.' });
    const { text } = await new ToolLoopAgent({ model, tools: { find }, stopWhen: isStepCount(4) }).generate({ prompt: 'Which colour?' });
    expect(text).toBe('Sorry.');
    expect(seen[1]!.messages.at(-1)).toMatchObject({
      role: 'tool',
      toolCallId: 'call00000',
      content: expect.stringContaining('Invalid input for tool find'),
    });
  });

  it('asks for JSON of a schema where the agent wants an object, and for a tool where it must call one', async () => {
    const { model, seen } = scripted({ content: '{"colour": "grey"}' });
    const { output } = await generateText({ model, prompt: 'Which colour?', output: Output.object({ schema: z.object({ colour: z.string() }) }) });
    expect(output).toEqual({ colour: 'grey' });
    expect(seen[0]!.settings).toMatchObject({ jsonSchema: { type: 'object', required: ['colour'] } });
    const choosing = scripted({ toolCalls: [call] }, { toolCalls: [call] }, { content: '{}' });
    await generateText({ model: choosing.model, prompt: 'Which?', tools: { find }, toolChoice: { type: 'tool', toolName: 'find' } });
    await generateText({ model: choosing.model, prompt: 'Which?', tools: { find }, toolChoice: 'required' });
    await generateText({ model: choosing.model, prompt: 'Which?', output: Output.json() });
    expect(choosing.seen.map(({ settings }) => settings)).toEqual([
      { toolChoice: { name: 'find' } },
      { toolChoice: 'required' },
      { jsonSchema: null, toolChoice: 'auto' },
    ]);
  });

  it('says what it leaves out: to the agent as a warning, to the run by name', async () => {
    const { model, seen } = scripted({ content: 'Grey.' });
    const { warnings } = await model.doGenerate({
      prompt,
      reasoning: 'high',
      providerOptions: { openai: { store: false } },
      headers: { 'x-a': 'b' },
    });
    expect(warnings).toMatchObject([
      { type: 'unsupported', feature: 'reasoning' },
      { type: 'unsupported', feature: 'providerOptions' },
    ]);
    expect(seen[0]!.unhonoured).toEqual(['reasoning', 'providerOptions']);
    const tools = [
      {
        type: 'function' as const,
        name: 'a',
        inputSchema: {},
        strict: true,
        inputExamples: [{ input: {} }],
        providerOptions: { anthropic: { a: 1 } },
      },
      { type: 'function' as const, name: 'b', inputSchema: {}, strict: false, inputExamples: [], providerOptions: {} },
    ];
    await model.doGenerate({ prompt, tools });
    expect(seen[1]!.unhonoured).toEqual(['tools[].strict', 'tools[].inputExamples', 'tools[].providerOptions']);
    expect((await model.doGenerate({ prompt, reasoning: 'provider-default', providerOptions: {} })).warnings).toEqual([]);
  });

  const user = (part: object) => [{ role: 'user', content: [part] }];
  it.each([
    [
      'prompt[0].content[0]',
      { prompt: user({ type: 'file', mediaType: 'image/png', data: { type: 'data', data: '' } }) },
      /is of the type file \(image\/png\), and must be a text/,
    ],
    [
      'prompt[0].content[0]',
      { prompt: [{ role: 'assistant', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 't' }] }] },
      /must be a text/,
    ],
    [
      'prompt[0].content[0].output',
      {
        prompt: [
          {
            role: 'tool',
            content: [{ type: 'tool-result', toolCallId: 'a', toolName: 't', output: { type: 'content', value: [{ type: 'file' }] } }],
          },
        ],
      },
      /is a part of the type "file"/,
    ],
    ['prompt', { prompt: [] }, /must have at least one message/],
    [
      'tools[0]',
      { prompt, tools: [{ type: 'provider', id: 'openai.web_search', name: 'web_search', args: {} }] },
      /is openai\.web_search, a tool that runs at its provider/,
    ],
    ['toolChoice.toolName', { prompt, toolChoice: { type: 'tool', toolName: 'x' } }, /names "x", which is not one of the tools/],
    ['toolChoice', { prompt, toolChoice: { type: 'required' } }, /offers no tool/],
    ['tools[1].name', { prompt, tools: [0, 1].map(() => ({ type: 'function', name: 'find', inputSchema: {} })) }, /also the name of another tool/],
    ['tools[0].execute', { prompt, tools: [{ type: 'function', name: 'find', inputSchema: {}, execute: true }] }, /cannot be honoured here/],
    ['temperature', { prompt, temperature: NaN }, /must be a number from 0 to 100/],
    ['maxOutputTokens', { prompt, maxOutputTokens: 0 }, /must be an integer of at least 1/],
    ['stopSequences', { prompt, stopSequences: [''] }, /must be a list of texts that are not empty/],
    ['responseFormat.type', { prompt, responseFormat: { type: 'xml' } }, /must be "text" or "json"/],
    ['logitBias', { prompt, logitBias: { a: 1 } }, /cannot be honoured here/],
  ])('refuses by name what it cannot honour, whole and streamed: %s', async (param, options, text) => {
    const { model, seen } = scripted({ content: 'Grey.' });
    for (const isStreamed of [false, true]) {
      const refused = isStreamed ? model.doStream(options as never) : model.doGenerate(options as never);
      await expect(refused).rejects.toThrow(text);
      await expect(refused).rejects.toMatchObject({ statusCode: 400, isRetryable: false, data: { error: { param } } });
    }
    expect(seen).toEqual([]);
  });

  it('a refusal is an API error of the SDK, which the SDK does not ask again; a failed policy is asked again', async () => {
    const ended = scripted(new AgentRefusal(400, null, 'The rollout has ended (max_turns_reached).'));
    const refused = generateText({ model: ended.model, prompt: 'Who?' });
    await expect(refused).rejects.toSatisfy((error) => APICallError.isInstance(error));
    await expect(refused).rejects.toThrow('The rollout has ended (max_turns_reached).');
    expect(ended.seen).toHaveLength(1);
    const { model } = scripted(new AgentRefusal(502, null, 'The policy failed: no answer'));
    await expect(model.doGenerate({ prompt })).rejects.toMatchObject({ statusCode: 502, isRetryable: true });
    const odd = scripted(new RangeError('a bug'));
    await expect(odd.model.doGenerate({ prompt })).rejects.toThrow(RangeError);
  });

  it('passes on the signal of the agent', async () => {
    const controller = new AbortController();
    const model = languageModelOf('policy', (_, signal) => untilAborted(new Promise<never>(() => {}), signal));
    const asked = generateText({ model, prompt: 'Who?', abortSignal: controller.signal, maxRetries: 0 });
    controller.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
  });
});
