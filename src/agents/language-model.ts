/** The policy as a model of the AI SDK, in the same process: no server stands between the agent and its rollout. */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider';
import type { Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import type { AgentRequest, AgentSettings, AgentTurn } from './agent-request.ts';
import { defined } from './dialects/request-keys.ts';
import { AgentRefusal } from './agent-refusal.ts';

/** Answers a request; the signal is the caller's. */
export type Ask = (request: AgentRequest, signal: AbortSignal) => Promise<readonly AgentTurn[]>;

/**
 * @param name of the policy in results
 * @param ask answers one request
 */
export function languageModelOf(name: string, ask: Ask): LanguageModelV4 {
  const generate = async (options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> => {
    const { abortSignal = new AbortController().signal } = options;
    const [turn] = await ask(requestOf(name, options), abortSignal);
    return resultOf(turn!);
  };
  return {
    specificationVersion: 'v4',
    provider: 'vf-search',
    modelId: name,
    supportedUrls: {},
    doGenerate: generate,
    async doStream(options) {
      const { content, finishReason, usage } = await generate(options);
      const parts: LanguageModelV4StreamPart[] = [
        { type: 'stream-start', warnings: [] },
        ...content.flatMap(streamed),
        { type: 'finish', finishReason, usage },
      ];
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream };
    },
  };
}

function requestOf(model: string, options: LanguageModelV4CallOptions): AgentRequest {
  const { prompt, tools = [], toolChoice, responseFormat, presencePenalty, frequencyPenalty, topK, reasoning } = options;
  const extra = Object.fromEntries(
    Object.entries({ presence_penalty: presencePenalty, frequency_penalty: frequencyPenalty, top_k: topK }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  const settings: AgentSettings = defined({
    temperature: options.temperature,
    topP: options.topP,
    maxTokens: options.maxOutputTokens,
    stop: options.stopSequences?.length === 0 ? undefined : options.stopSequences,
    seed: options.seed,
    toolChoice: toolChoice?.type === 'tool' ? { name: toolChoice.toolName } : toolChoice?.type,
    jsonSchema: responseFormat?.type === 'json' ? ((responseFormat.schema as AgentSettings['jsonSchema']) ?? null) : undefined,
    extra: Object.keys(extra).length === 0 ? undefined : extra,
  });
  return {
    model,
    messages: prompt.flatMap((message, i) => messagesOf(message, `prompt[${i}]`)),
    tools: tools.map((tool, i): ToolSpec => {
      if (tool.type === 'function')
        return { name: tool.name, description: tool.description ?? '', parameters: tool.inputSchema as ToolSpec['parameters'] };
      throw new AgentRefusal(
        400,
        `tools[${i}]`,
        `The tool ${tool.id} runs at its provider, which the policy has not. Give it as a tool with execute.`,
      );
    }),
    settings,
    isStreamed: false,
    unhonoured: reasoning === undefined || reasoning === 'provider-default' ? [] : ['reasoning'],
  };
}

function messagesOf(message: LanguageModelV4Message, place: string): readonly Message[] {
  if (message.role === 'system') return [{ role: 'system', content: message.content }];
  if (message.role === 'user')
    return [{ role: 'user', content: message.content.map((part, i) => textOf(part, `${place}.content[${i}]`)).join('\n') }];
  if (message.role === 'tool')
    return message.content.flatMap((part) =>
      part.type === 'tool-result' ? [{ role: 'tool' as const, toolCallId: part.toolCallId, content: outputText(part.output) }] : [],
    );
  const texts = message.content.flatMap((part, i) => (part.type === 'text' ? [textOf(part, `${place}.content[${i}]`)] : []));
  const toolCalls = message.content.flatMap((part) =>
    part.type === 'tool-call' ? [{ id: part.toolCallId, name: part.toolName, arguments: JSON.stringify(part.input) ?? '{}' }] : [],
  );
  return [{ role: 'assistant', content: texts.join(''), ...(toolCalls.length === 0 ? {} : { toolCalls }) }];
}

function textOf(part: { readonly type: string; readonly text?: unknown }, place: string): string {
  if (part.type === 'text' && typeof part.text === 'string') return part.text;
  throw new AgentRefusal(400, place, `${place} must be a text, because this policy reads text only.`);
}

/** What a chat API is sent for the result of a tool. */
function outputText(output: LanguageModelV4ToolResultOutput): string {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'execution-denied':
      return output.reason ?? 'Tool call execution denied.';
    default:
      return JSON.stringify(output.value);
  }
}

function resultOf({ content, reasoning, toolCalls, finish, usage }: AgentTurn): LanguageModelV4GenerateResult {
  const parts: LanguageModelV4Content[] = [
    ...(reasoning === undefined ? [] : [{ type: 'reasoning' as const, text: reasoning }]),
    ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
    ...toolCalls.map(({ id, name, arguments: input }) => ({ type: 'tool-call' as const, toolCallId: id, toolName: name, input })),
  ];
  return {
    content: parts,
    finishReason: { unified: finish === 'length' ? 'length' : toolCalls.length > 0 ? 'tool-calls' : 'stop', raw: finish },
    usage: {
      inputTokens: { total: usage.promptTokens, noCache: undefined, cacheRead: usage.cachedTokens ?? undefined, cacheWrite: undefined },
      outputTokens: { total: usage.completionTokens, text: undefined, reasoning: undefined },
    },
    warnings: [],
  };
}

function streamed(part: LanguageModelV4Content, i: number): readonly LanguageModelV4StreamPart[] {
  const id = String(i);
  if (part.type === 'text')
    return [
      { type: 'text-start', id },
      { type: 'text-delta', id, delta: part.text },
      { type: 'text-end', id },
    ];
  if (part.type === 'reasoning')
    return [
      { type: 'reasoning-start', id },
      { type: 'reasoning-delta', id, delta: part.text },
      { type: 'reasoning-end', id },
    ];
  return part.type === 'tool-call' ? [part] : [];
}
