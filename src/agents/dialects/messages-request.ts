/** The request of Anthropic's `POST /v1/messages`. Results of tools, which are blocks of a user message there, become messages of their own. */
import type { Message, ToolCall } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import type { AgentRequest, AgentSettings, ToolChoice } from '../agent-request.ts';
import { defined, toolSpec } from './chat-request.ts';
import { FLAG, integerFrom, LIST, numberFrom, OBJECT, refuse, RequestKeys, STRING } from './request-keys.ts';

const IGNORED = ['metadata', 'service_tier', 'inference_geo', 'container'];
/** Thoughts are the policy's own affair. */
const NAMED = ['thinking', 'output_config', 'context_management', 'mcp_servers', 'speed'];

export function readMessagesRequest(body: unknown): AgentRequest {
  const keys = new RequestKeys(body);
  const system = blocksText(keys.raw('system'), 'system');
  const given = keys.required('messages', LIST).flatMap((message, i) => messagesOf(message, `messages[${i}].`));
  const messages = [...(system === '' ? [] : [{ role: 'system' as const, content: system }]), ...merged(given)];
  if (given.length === 0) refuse('messages', 'must have at least one message.');
  const { tools, hosted } = messagesTools(keys);
  const settings = messagesSettings(keys);
  const model = keys.optional('model', STRING) ?? '';
  const isStreamed = keys.optional('stream', FLAG) ?? false;
  return { model, messages, tools, settings, isStreamed, unhonoured: [...keys.end({ ignored: IGNORED, named: NAMED }), ...hosted] };
}

function messagesSettings(keys: RequestKeys): AgentSettings {
  const choice = keys.optional('tool_choice', OBJECT);
  const stops = keys.optional('stop_sequences', LIST) ?? [];
  if (!stops.every((one) => typeof one === 'string' && one !== '')) refuse('stop_sequences', 'must be a list of strings.');
  const topK = keys.optional('top_k', integerFrom(-1));
  return defined({
    temperature: keys.optional('temperature', numberFrom(0, 100)),
    topP: keys.optional('top_p', numberFrom(0, 1)),
    maxTokens: keys.optional('max_tokens', integerFrom(1)),
    stop: stops.length === 0 ? undefined : (stops as readonly string[]),
    toolChoice: choice === undefined ? undefined : anthropicChoice(choice),
    parallelToolCalls: choice?.['disable_parallel_tool_use'] === true ? false : undefined,
    extra: topK === undefined ? undefined : { top_k: topK },
  });
}

function anthropicChoice({ type, name }: Readonly<Record<string, unknown>>): ToolChoice {
  if (type === 'auto' || type === 'none') return type;
  if (type === 'any') return 'required';
  return type === 'tool' && typeof name === 'string' ? { name } : refuse('tool_choice.type', 'must be "auto", "any", "tool" or "none".');
}

/** Tools that Anthropic itself would run, and those that are not loaded yet, are left out and named. */
function messagesTools(keys: RequestKeys): { readonly tools: readonly ToolSpec[]; readonly hosted: readonly string[] } {
  const hosted: string[] = [];
  const tools = (keys.optional('tools', LIST) ?? []).flatMap((tool, i) => {
    const { type = 'custom' } = fieldsOf(tool);
    if (type === 'custom') return [toolSpec(new RequestKeys(tool, `tools[${i}].`), 'input_schema')];
    hosted.push(`tools[${i}] (${String(type)})`);
    return [];
  });
  return { tools, hosted };
}

function messagesOf(given: unknown, place: string): readonly Message[] {
  const keys = new RequestKeys(given, place);
  const role = keys.required('role', STRING);
  const content = keys.raw('content');
  if (role === 'system') return [{ role, content: blocksText(content, `${place}content`) }];
  if (role !== 'user' && role !== 'assistant') return refuse(`${place}role`, 'must be user, assistant or system.');
  if (typeof content === 'string') return [{ role, content }];
  if (!Array.isArray(content)) return refuse(`${place}content`, 'must be a string or a list of blocks.');
  const blocks = content as readonly unknown[];
  return role === 'user' ? userMessages(blocks, `${place}content`) : [assistantTurn(blocks, `${place}content`)];
}

function userMessages(blocks: readonly unknown[], place: string): readonly Message[] {
  const messages: Message[] = [];
  const texts: string[] = [];
  for (const [i, block] of blocks.entries()) {
    const { type, text, tool_use_id: id, content } = fieldsOf(block);
    if (type === 'text' && typeof text === 'string') texts.push(text);
    else if (type === 'tool_result' && typeof id === 'string')
      messages.push({ role: 'tool', toolCallId: id, content: blocksText(content, `${place}[${i}].content`) });
    else refuse(`${place}[${i}]`, 'must be a text or the result of a tool, because this policy reads text only.');
  }
  return texts.length === 0 ? messages : [...messages, { role: 'user', content: texts.join('\n') }];
}

function assistantTurn(blocks: readonly unknown[], place: string): Message {
  const texts: string[] = [];
  const calls: ToolCall[] = [];
  for (const [i, block] of blocks.entries()) {
    const { type, text, id, name, input } = fieldsOf(block);
    if (type === 'thinking' || type === 'redacted_thinking') continue;
    if (type === 'text' && typeof text === 'string') texts.push(text);
    else if (type === 'tool_use' && typeof id === 'string' && typeof name === 'string')
      calls.push({ id, name, arguments: JSON.stringify(input ?? {}) });
    else refuse(`${place}[${i}]`, 'must be a text, a thought or a call of a tool.');
  }
  return { role: 'assistant', content: texts.join(''), ...(calls.length === 0 ? {} : { toolCalls: calls }) };
}

/** Anthropic reads neighbours of one role as one message. */
function merged(messages: readonly Message[]): readonly Message[] {
  const kept: Message[] = [];
  for (const message of messages) {
    const last = kept.at(-1);
    const joins = last !== undefined && last.role === message.role && message.role === 'user';
    if (joins) kept[kept.length - 1] = { ...last, content: `${last.content as string}\n${message.content as string}` };
    else kept.push(message);
  }
  return kept;
}

/** The text of a string or of blocks. */
function blocksText(content: unknown, place: string): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return refuse(place, 'must be a string or a list of blocks.');
  return content
    .map((block: unknown, i) => {
      const { type, text } = fieldsOf(block);
      return isObject(block) && type === 'text' && typeof text === 'string'
        ? text
        : refuse(`${place}[${i}]`, 'must be a text block, because this policy reads text only.');
    })
    .join('\n');
}
