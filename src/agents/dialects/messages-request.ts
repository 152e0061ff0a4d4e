/** The request of Anthropic's `POST /v1/messages`. Results of tools, which are blocks of a user message there, become messages of their own. */
import type { Message, ToolCall } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { AgentRequest, AgentSettings, ToolChoice } from '../agent-request.ts';
import { offer, possibleChoice, responseFormat, returnedThoughts, toolSpec } from './request-parts.ts';
import { defined, FLAG, integerFrom, LIST, OBJECT, readOnce, refuse, RequestKeys, sampled, STRING, stringsOf } from './request-keys.ts';

const IGNORED = ['metadata', 'service_tier', 'inference_geo', 'container', 'cache_control'];
/** How long a model thinks, and what its server forgets, is not asked of the policy. */
const NAMED = ['thinking', 'context_management', 'speed'];

/** Thoughts that only Anthropic can read. */
const REDACTED = 'redacted_thinking';

export function readMessagesRequest(body: unknown): AgentRequest {
  const keys = new RequestKeys(body);
  const system = blocksText(keys.raw('system'), 'system');
  const list = keys.required('messages', LIST);
  const given = list.flatMap((message, i) => messagesOf(message, `messages[${i}].`));
  if (given.length === 0) refuse('messages', 'must have at least one message.');
  if (given.at(-1)!.role === 'assistant')
    refuse(
      `messages[${list.length - 1}].role`,
      'is assistant, and this policy cannot continue text that it did not write. End the list with a user message.',
    );
  const messages = [...(system === '' ? [] : [{ role: 'system' as const, content: system }]), ...merged(given)];
  const unhonoured = new Set<string>();
  const isRedacted = list.some((message) => listOf(fieldsOf(message)['content']).some((block) => fieldsOf(block)['type'] === REDACTED));
  if (isRedacted) unhonoured.add(`messages[].content[] (${REDACTED})`);
  const tools = messagesTools(keys, { referenced: referencedTools(list), unhonoured });
  const [jsonKey, jsonSchema] = jsonFormat(keys, unhonoured);
  const settings = defined({ ...messagesSettings(keys, tools), jsonSchema });
  const model = keys.optional('model', STRING) ?? '';
  const isStreamed = keys.optional('stream', FLAG) ?? false;
  const servers = keys.optional('mcp_servers', LIST) ?? [];
  if (servers.length > 0) unhonoured.add('mcp_servers');
  for (const name of keys.end({ ignored: IGNORED, named: NAMED })) unhonoured.add(name);
  return { model, messages, tools, settings, keys: { jsonSchema: jsonKey }, isStreamed, unhonoured: [...unhonoured] };
}

/** The schema, and the key that has it: `output_format` is its name in older clients. */
function jsonFormat(keys: RequestKeys, unhonoured: Set<string>): readonly [key: string, schema: AgentSettings['jsonSchema'] | undefined] {
  const output = new RequestKeys(keys.optional('output_config', OBJECT) ?? {}, 'output_config.');
  const now = output.optional('format', OBJECT);
  for (const name of output.end({ named: ['effort', 'task_budget'] })) unhonoured.add(name);
  const [key, format] = now === undefined ? ['output_format', keys.optional('output_format', OBJECT)] : ['output_config.format', now];
  return [key, responseFormat(format, `${key}.`)];
}

function messagesSettings(keys: RequestKeys, tools: readonly ToolSpec[]): Omit<AgentSettings, 'jsonSchema'> {
  const choice = keys.optional('tool_choice', OBJECT);
  return defined({
    temperature: keys.optional('temperature', sampled('temperature')),
    topP: keys.optional('top_p', sampled('top_p')),
    maxTokens: keys.optional('max_tokens', integerFrom(1)),
    stop: stringsOf(keys.raw('stop_sequences'), 'stop_sequences'),
    toolChoice: choice === undefined ? undefined : possibleChoice(anthropicChoice(choice), tools),
    parallelToolCalls: choice?.['disable_parallel_tool_use'] === true ? false : undefined,
    extra: keys.passedOn({ top_k: 'top_k' }),
  });
}

function anthropicChoice({ type, name }: Readonly<Record<string, unknown>>): ToolChoice {
  if (type === 'auto' || type === 'none') return type;
  if (type === 'any') return 'required';
  return type === 'tool' && typeof name === 'string' ? { name } : refuse('tool_choice.type', 'must be "auto", "any", "tool" or "none".');
}

/**
 * A tool that is loaded later (`defer_loading`) is offered once a result of a tool has named it. Those that Anthropic itself would run, and those that are not loaded, are left
 * out; the former are named.
 */
function messagesTools(
  keys: RequestKeys,
  { referenced, unhonoured }: { readonly referenced: ReadonlySet<string>; readonly unhonoured: Set<string> },
): readonly ToolSpec[] {
  const tools = new Map<string, ToolSpec>();
  for (const [i, tool] of (keys.optional('tools', LIST) ?? []).entries()) {
    const { type = 'custom', name, defer_loading: isDeferred } = fieldsOf(tool);
    if (type !== 'custom') unhonoured.add(`tools[] (${String(type)})`);
    else if (isDeferred !== true || referenced.has(String(name))) {
      offer(tools, toolSpec(new RequestKeys(tool, `tools[${i}].`), unhonoured, 'input_schema'), `tools[${i}]`);
    }
  }
  return [...tools.values()];
}

function referencedTools(messages: readonly unknown[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const message of messages)
    for (const block of listOf(fieldsOf(message)['content']))
      for (const part of listOf(fieldsOf(block)['content'])) {
        const { type, tool_name: name } = fieldsOf(part);
        if (type === 'tool_reference') names.add(String(name));
      }
  return names;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

const messagesOf = readOnce((given, place): readonly Message[] => {
  const keys = new RequestKeys(given, place);
  const role = keys.required('role', STRING);
  const content = keys.raw('content');
  if (role === 'system') return [{ role, content: blocksText(content, `${place}content`) }];
  if (role !== 'user' && role !== 'assistant') return refuse(`${place}role`, 'must be user, assistant or system.');
  if (typeof content === 'string') return [{ role, content }];
  if (!Array.isArray(content)) return refuse(`${place}content`, 'must be a string or a list of blocks.');
  const blocks = content as readonly unknown[];
  return role === 'user' ? userMessages(blocks, `${place}content`) : [assistantTurn(blocks, `${place}content`)];
});

function userMessages(blocks: readonly unknown[], place: string): readonly Message[] {
  const messages: Message[] = [];
  const texts: string[] = [];
  for (const [i, block] of blocks.entries()) {
    const { type, text, tool_use_id: id, content, is_error: isError } = fieldsOf(block);
    if (type === 'text' && typeof text === 'string') texts.push(text);
    else if (type === 'tool_result' && typeof id === 'string')
      messages.push({ role: 'tool', toolCallId: id, content: resultText(blocksText(content, `${place}[${i}].content`), isError === true) });
    else refuse(`${place}[${i}]`, 'must be text or a tool result, because this policy reads only text.');
  }
  return texts.length === 0 ? messages : [...messages, { role: 'user', content: texts.join('\n') }];
}

/** A failed result says so in its text, as those of a ToolEnv do, because no chat template has a place for the mark. */
function resultText(text: string, isError: boolean): string {
  return isError && !/^\W*(?:tool_use_)?error/i.test(text) ? `Error: ${text}` : text;
}

function assistantTurn(blocks: readonly unknown[], place: string): Message {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: ToolCall[] = [];
  for (const [i, block] of blocks.entries()) {
    const { type, text, thinking, id, name, input } = fieldsOf(block);
    if (type === REDACTED) continue;
    if (type === 'thinking' && typeof thinking === 'string') thoughts.push(thinking);
    else if (type === 'text' && typeof text === 'string') texts.push(text);
    else if (type === 'tool_use' && typeof id === 'string' && typeof name === 'string')
      calls.push({ id, name, arguments: JSON.stringify(input ?? {}) });
    else refuse(`${place}[${i}]`, 'must be text, thinking or a tool call.');
  }
  return { role: 'assistant', content: texts.join(''), ...(calls.length === 0 ? {} : { toolCalls: calls }), ...returnedThoughts(thoughts) };
}

/** Anthropic reads neighbours of one role as one message. Those of the assistant stay apart, because each may be a turn of the policy. */
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
      const { type, text, tool_name: name } = fieldsOf(block);
      if (type === 'text' && typeof text === 'string') return text;
      if (type === 'tool_reference' && typeof name === 'string') return `The tool ${name} can be called now.`;
      return refuse(`${place}[${i}]`, 'must be a text block, because this policy reads only text.');
    })
    .join('\n');
}
