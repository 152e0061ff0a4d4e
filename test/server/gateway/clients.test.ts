/** The SDKs that agents are written with, as npm has them, read what the gateway writes. */
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool as agentsTool } from '@openai/agents';
import { generateText, isStepCount, type LanguageModel, streamText, tool, ToolLoopAgent } from 'ai';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { MessageGraph } from '../../../src/agents/message-graph.ts';
import type { AnsweredTurn } from '../../../src/agents/message-key.ts';
import type { AgentRequest, AgentTurn } from '../../../src/agents/agent-request.ts';
import { LOOP, scriptedGateway, type ScriptedGateway, turnOf } from './scripted-session.ts';

setTracingDisabled(true);

type LangChainModel = ReturnType<ChatOpenAI['bindTools']>;
type BaseMessageLike = Extract<Parameters<LangChainModel['invoke']>[0], readonly unknown[]>[number];
type AIMessageChunk = Awaited<ReturnType<LangChainModel['invoke']>>;

/** The number of branches that the requests of one run give, with the turns that answered them. */
async function branchesOf(asked: readonly AgentRequest[]): Promise<number> {
  const graph = new MessageGraph<{ answer: AnsweredTurn }>();
  const turns = [];
  for (const [i, request] of asked.entries()) {
    const answer = (await LOOP(request, i, new AbortController().signal)) as AgentTurn;
    turns.push(graph.addTurn(graph.place(request.messages, request.tools), { answer }));
  }
  return turns.filter(({ isLeaf }) => isLeaf).length;
}

/** What every agent of one loop must have sent. */
async function expectLoop({ asked, failures }: ScriptedGateway): Promise<void> {
  expect(failures).toEqual([]);
  expect(asked).toHaveLength(2);
  expect(asked[1]!.messages.slice(-3).map(({ role, toolCallId }) => [role, toolCallId])).toEqual([
    ['assistant', undefined],
    ['tool', 'call00001'],
    ['tool', 'call00002'],
  ]);
  expect(asked[1]!.messages.slice(-2).map(({ content }) => content)).toEqual(['Doc on heron ☉', 'Doc on grey']);
  expect(asked[0]!.tools.map(({ name }) => name)).toEqual(['find']);
  expect(await branchesOf(asked)).toBe(1);
}

const parameters = z.object({ query: z.string() });
const find = ({ query }: { query: string }) => `Doc on ${query}`;

describe('the AI SDK', () => {
  const models: Readonly<Record<string, (address: { baseURL: string; apiKey: string }) => LanguageModel>> = {
    '@ai-sdk/openai, Responses': (address) => createOpenAI(address)('policy'),
    '@ai-sdk/openai, Responses with a model name that has thoughts': (address) => createOpenAI(address)('gpt-5-mini'),
    '@ai-sdk/openai, Chat Completions': (address) => createOpenAI(address).chat('policy'),
    '@ai-sdk/openai-compatible': (address) => createOpenAICompatible({ name: 'vf', includeUsage: true, ...address })('policy'),
    '@ai-sdk/anthropic': (address) => createAnthropic(address)('claude-sonnet-4-5'),
  };
  const agentOf = (model: LanguageModel) =>
    new ToolLoopAgent({
      model,
      instructions: 'Look things up.',
      tools: { find: tool({ description: 'Finds.', inputSchema: parameters, execute: async (input) => find(input) }) },
      stopWhen: isStepCount(4),
      maxRetries: 0,
    });

  for (const [name, open] of Object.entries(models)) {
    it(`${name} reads a whole loop, not streamed`, async () => {
      await using gateway = await scriptedGateway(LOOP);
      const { text, steps, totalUsage } = await agentOf(open(gateway)).generate({ prompt: 'Which colour?' });
      expect(text.trim()).toBe('It is grey.');
      expect(steps[0]!.text.trim()).toBe('Let me look.');
      expect(totalUsage).toMatchObject({ inputTokens: 22, outputTokens: 6 });
      await expectLoop(gateway);
    });

    it(`${name} reads a whole loop, streamed`, async () => {
      await using gateway = await scriptedGateway(LOOP);
      const result = await agentOf(open(gateway)).stream({ prompt: 'Which colour?' });
      expect((await result.text).trim()).toBe('It is grey.');
      const steps = await result.steps;
      expect(steps[0]!.text.trim()).toBe('Let me look.');
      expect(steps[0]!.toolCalls.map(({ input }) => input)).toEqual([{ query: 'heron ☉' }, { query: 'grey' }]);
      // The provider of OpenAI reads no thoughts in a chat.
      expect(steps[0]!.reasoningText?.trim()).toBe(name === '@ai-sdk/openai, Chat Completions' ? undefined : 'Which bird?\nA heron.');
      expect(await result.totalUsage).toMatchObject({ inputTokens: 22, outputTokens: 6 });
      await expectLoop(gateway);
      expect(gateway.asked.every(({ isStreamed }) => isStreamed)).toBe(true);
    });
  }

  it('counts each token of the prompt once, whether it was cached or not, in every API', async () => {
    await using gateway = await scriptedGateway(() =>
      turnOf({ content: 'It is grey.', usage: { promptTokens: 62, completionTokens: 3, cachedTokens: 48 } }),
    );
    for (const [name, open] of Object.entries(models)) {
      const [whole, streamed] = [await generateText({ model: open(gateway), prompt: 'x' }), streamText({ model: open(gateway), prompt: 'x' })];
      for (const usage of [whole.usage, await streamed.usage])
        expect({ name, ...usage }).toMatchObject({
          name,
          inputTokens: 62,
          inputTokenDetails: { cacheReadTokens: 48, noCacheTokens: 14 },
          outputTokens: 3,
        });
    }
  });

  it('an Anthropic stream has its counts at its beginning, where the answer is there by then', async () => {
    await using gateway = await scriptedGateway(() => turnOf({ usage: { promptTokens: 62, completionTokens: 3, cachedTokens: 48 } }));
    const body = JSON.stringify({ model: 'm', max_tokens: 5, stream: true, messages: [{ role: 'user', content: 'x' }] });
    const answer = await fetch(`${gateway.baseURL}/messages`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const [start] = /"type":"message_start".*/.exec(await answer.text())!;
    expect(start).toContain('"usage":{"input_tokens":14,"output_tokens":3,"cache_read_input_tokens":48}');
  });
});

describe('@openai/agents', () => {
  const agent = (model: OpenAIResponsesModel | OpenAIChatCompletionsModel) =>
    new Agent({
      name: 'finder',
      instructions: 'Look things up.',
      model,
      tools: [agentsTool({ name: 'find', description: 'Finds.', parameters, execute: find })],
    });
  const kinds = { Responses: OpenAIResponsesModel, 'Chat Completions': OpenAIChatCompletionsModel } as const;
  for (const [name, Model] of Object.entries(kinds)) {
    it(`${name} reads a whole loop, not streamed`, async () => {
      await using gateway = await scriptedGateway(LOOP);
      const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey });
      const { finalOutput } = await run(agent(new Model(client, 'policy')), 'Which colour?');
      expect(finalOutput).toBe('It is grey.\n');
      await expectLoop(gateway);
    });

    it(`${name} reads a whole loop, streamed`, async () => {
      await using gateway = await scriptedGateway(LOOP);
      const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.apiKey });
      const result = await run(agent(new Model(client, 'policy')), 'Which colour?', { stream: true });
      let text = '';
      for await (const event of result)
        if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
      await result.completed;
      expect(text).toBe('Let me look.\n\nIt is grey.\n');
      expect(result.finalOutput).toBe('It is grey.\n');
      await expectLoop(gateway);
    });
  }
});

const callsOf = (messages: readonly unknown[]) => (messages.at(-1) as AIMessageChunk).tool_calls ?? [];

describe('LangGraph', () => {
  const tools = [{ type: 'function' as const, function: { name: 'find', description: 'Finds.', parameters: z.toJSONSchema(parameters) } }];
  for (const useResponsesApi of [false, true])
    for (const isStreamed of [false, true])
      it(`${useResponsesApi ? 'Responses' : 'Chat Completions'} reads a whole loop, ${isStreamed ? '' : 'not '}streamed`, async () => {
        await using gateway = await scriptedGateway(LOOP);
        const { baseURL, apiKey } = gateway;
        const model = new ChatOpenAI({ model: 'policy', apiKey, useResponsesApi, maxRetries: 0, configuration: { baseURL } }).bindTools(tools);
        const ask = async (messages: BaseMessageLike[]) => {
          if (!isStreamed) return model.invoke(messages);
          let whole: AIMessageChunk | undefined;
          for await (const chunk of await model.stream(messages)) whole = whole === undefined ? chunk : whole.concat(chunk);
          return whole!;
        };
        const graph = new StateGraph(MessagesAnnotation)
          .addNode('agent', async ({ messages }) => ({ messages: [await ask(messages)] }))
          .addNode('tools', ({ messages }) => ({
            messages: callsOf(messages).map(({ id, args }) => ({
              role: 'tool' as const,
              tool_call_id: id!,
              content: find(args as { query: string }),
            })),
          }))
          .addEdge(START, 'agent')
          .addEdge('tools', 'agent')
          .addConditionalEdges('agent', ({ messages }) => (callsOf(messages).length > 0 ? 'tools' : END))
          .compile();
        const { messages } = await graph.invoke({ messages: [{ role: 'user', content: 'Which colour?' }] });
        const last = messages.at(-1) as AIMessageChunk;
        expect(last.text).toBe('It is grey.\n');
        expect(last.usage_metadata).toMatchObject({ input_tokens: 11, output_tokens: 3 });
        await expectLoop(gateway);
      });
});
