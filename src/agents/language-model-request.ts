/** The options of a call in the AI SDK, as a request of an agent. Every option is read, known to change nothing here, or refused by its name. */
import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { Message, ToolCall } from '../core/message.ts';
import { toolOutputText } from '../core/sdk-tool-output.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { AgentRequest, AgentSettings, SettingKeys } from './agent-request.ts';
import { offer, possibleChoice, returnedThoughts, toolSpec } from './dialects/request-parts.ts';
import { defined, integerFrom, LIST, OBJECT, refuse, RequestKeys, sampled } from './dialects/request-keys.ts';

/** What has no meaning without a server: its headers, its own events, the end of its connection. */
const IGNORED = ['headers', 'includeRawChunks', 'abortSignal'];
/** What asks a model to answer in another way. Options of other providers are theirs. */
const NAMED = ['reasoning', 'providerOptions'];
const KEYS: Partial<SettingKeys> = { messages: 'prompt', toolChoice: 'toolChoice', jsonSchema: 'responseFormat' };

/** Throws AgentRefusal. */
export function readCallOptions(model: string, options: LanguageModelV4CallOptions, isStreamed: boolean): AgentRequest {
  const { reasoning, ...asked } = options;
  const keys = new RequestKeys(reasoning === 'provider-default' ? asked : { ...options });
  const prompt = keys.required('prompt', LIST) as LanguageModelV4CallOptions['prompt'];
  if (prompt.length === 0) refuse('prompt', 'must have at least one message.');
  const messages = messagesOf(prompt);
  const offered = new Map<string, ToolSpec>();
  const unhonoured = new Set<string>();
  for (const [i, tool] of (keys.optional('tools', LIST) ?? []).entries()) offer(offered, toolOf(tool, `tools[${i}]`, unhonoured), `tools[${i}]`);
  const tools = [...offered.values()];
  const settings = settingsOf(keys, tools);
  return { model, messages, tools, settings, keys: KEYS, isStreamed, unhonoured: [...keys.end({ ignored: IGNORED, named: NAMED }), ...unhonoured] };
}

/** The SDK's names of vLLM's fields. */
const EXTRA = { top_k: 'topK', presence_penalty: 'presencePenalty', frequency_penalty: 'frequencyPenalty' } as const;

function settingsOf(keys: RequestKeys, tools: readonly ToolSpec[]): AgentSettings {
  const stop = keys.optional('stopSequences', LIST) ?? [];
  if (!stop.every((text) => typeof text === 'string' && text !== '')) refuse('stopSequences', 'must be a list of texts that are not empty.');
  return defined({
    temperature: keys.optional('temperature', sampled('temperature')),
    topP: keys.optional('topP', sampled('top_p')),
    maxTokens: keys.optional('maxOutputTokens', integerFrom(1)),
    stop: stop.length === 0 ? undefined : (stop as readonly string[]),
    seed: keys.optional('seed', integerFrom(-(2 ** 53))),
    toolChoice: toolChoiceOf(keys.optional('toolChoice', OBJECT), tools),
    jsonSchema: jsonSchemaOf(keys.optional('responseFormat', OBJECT)),
    extra: keys.passedOn(EXTRA),
  });
}

function toolChoiceOf(choice: Readonly<Record<string, unknown>> | undefined, tools: readonly ToolSpec[]): AgentSettings['toolChoice'] | undefined {
  if (choice === undefined) return undefined;
  const { type, toolName } = choice;
  if (type === 'auto' || type === 'none' || type === 'required') return possibleChoice(type, tools, 'toolChoice');
  if (type === 'tool' && typeof toolName === 'string') return possibleChoice({ name: toolName }, tools, 'toolChoice.toolName');
  return refuse('toolChoice', 'must be of the type auto, none, required or tool.');
}

function jsonSchemaOf(format: Readonly<Record<string, unknown>> | undefined): AgentSettings['jsonSchema'] | undefined {
  if (format === undefined || format['type'] === 'text') return undefined;
  if (format['type'] !== 'json') return refuse('responseFormat.type', 'must be "text" or "json".');
  const { schema = null } = format;
  return schema === null || isObject(schema) ? schema : refuse('responseFormat.schema', 'must be a JSON Schema.');
}

function toolOf(tool: unknown, place: string, unhonoured: Set<string>): ToolSpec {
  const { type, id } = fieldsOf(tool);
  if (type === 'function') return toolSpec(new RequestKeys(tool, `${place}.`), unhonoured, 'inputSchema');
  const what = typeof id === 'string' ? id : 'not a function';
  return refuse(place, `is ${what}, a tool that runs at its provider, and the policy has none. Give it as a tool with execute.`);
}

/** Told again with every call, so that a late turn costs no more than an early one only if this is cheap: places are named where one is refused. */
function messagesOf(prompt: LanguageModelV4CallOptions['prompt']): readonly Message[] {
  const messages: Message[] = [];
  for (const [i, { role, content }] of prompt.entries()) {
    if (role === 'system') {
      messages.push({ role, content });
      continue;
    }
    if (!Array.isArray(content)) refuse(`prompt[${i}].content`, 'must be a list of parts.');
    const parts = content as readonly unknown[];
    if (role === 'user') messages.push({ role, content: parts.map((part, k) => textOf(fieldsOf(part), i, k)).join('\n') });
    else if (role === 'assistant') messages.push(assistantMessage(parts, i));
    else if (role === 'tool') toolMessages(messages, parts, i);
    else refuse(`prompt[${i}].role`, 'must be system, user, assistant or tool.');
  }
  return messages;
}

type Part = Readonly<Record<string, unknown>>;
const partName = (message: number, part: number) => `prompt[${message}].content[${part}]`;

function assistantMessage(parts: readonly unknown[], i: number): Message {
  let content = '';
  const thoughts: string[] = [];
  const toolCalls: ToolCall[] = [];
  for (const [k, given] of parts.entries()) {
    const part = fieldsOf(given);
    const { type, text, toolCallId, toolName, input, providerExecuted } = part;
    if (type === 'reasoning' && typeof text === 'string') thoughts.push(text);
    else if (type === 'tool-call' && providerExecuted !== true)
      toolCalls.push({
        id: String(toolCallId),
        name: String(toolName),
        arguments: typeof input === 'string' ? input : (JSON.stringify(input) ?? '{}'),
      });
    else content += textOf(part, i, k);
  }
  const message: Message = toolCalls.length === 0 ? { role: 'assistant', content } : { role: 'assistant', content, toolCalls };
  return thoughts.length === 0 ? message : { ...message, ...returnedThoughts(thoughts) };
}

function toolMessages(messages: Message[], parts: readonly unknown[], i: number): void {
  for (const [k, part] of parts.entries()) {
    const { type, toolCallId, output } = fieldsOf(part);
    // Of an approval, the result tells what became of it.
    if (type === 'tool-approval-response') continue;
    if (type !== 'tool-result' || typeof toolCallId !== 'string') return refuse(partName(i, k), 'must be the result of a tool.');
    const shown = toolOutputText(output);
    if (!('text' in shown)) return refuse(`${partName(i, k)}.output`, `is ${shown.problem}.`);
    messages.push({ role: 'tool', content: shown.text, toolCallId });
  }
}

function textOf({ type, text, mediaType }: Part, i: number, k: number): string {
  if (type === 'text' && typeof text === 'string') return text;
  const what = typeof mediaType === 'string' ? `${String(type)} (${mediaType})` : String(type);
  return refuse(partName(i, k), `is of the type ${what}, and must be a text, because this policy reads text only.`);
}
