/** The request of `POST /v1/responses`. Items that one answer of the policy holds (thoughts, text, calls) become one assistant message again. */
import type { Message, ToolCall } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import type { AgentRequest, AgentSettings, NamespacedTool, SettingKeys } from '../agent-request.ts';
import type { ItemStore } from './dialect.ts';
import { asksForUsage, offer, OPENAI_IGNORED, responseFormat, textOf, returnedThoughts, toolChoice, toolSpec } from './request-parts.ts';
import { AgentRefusal } from '../agent-refusal.ts';
import { defined, FLAG, integerFrom, LIST, OBJECT, refuse, RequestKeys, sampled, STRING } from './request-keys.ts';

const IGNORED = [...OPENAI_IGNORED, 'client_metadata', 'max_tool_calls'];
const NAMED = ['reasoning'];
/** Values of `include` that change nothing here: thoughts stay on record, and tools that OpenAI itself would run do not exist. */
const INCLUDED = [
  'reasoning.encrypted_content',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'message.input_image.image_url',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
];
const LOG_PROBS = 'message.output_text.logprobs';
/** What an answer repeats of its request. */
const REPEATED = [
  'instructions',
  'previous_response_id',
  'store',
  'metadata',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'truncation',
  'reasoning',
  'text',
  'temperature',
  'top_p',
  'top_logprobs',
  'max_output_tokens',
  'max_tool_calls',
  'tool_choice',
  'parallel_tool_calls',
];
const KEYS: Partial<SettingKeys> = { messages: 'input', jsonSchema: 'text.format', logProbs: 'include' };

export function readResponsesRequest(body: unknown, store: ItemStore): AgentRequest {
  const keys = new RequestKeys(body);
  const previous = keys.optional('previous_response_id', STRING);
  const before =
    previous === undefined
      ? []
      : (store.response(previous) ?? refuse('previous_response_id', 'names no answer that this session keeps; send the whole input instead.'));
  const input = keys.raw('input');
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : keys.required('input', LIST);
  const instructions = keys.optional('instructions', STRING);
  const system: readonly Message[] = instructions === undefined ? [] : [{ role: 'system', content: instructions }];
  if (keys.optional('background', FLAG) === true) refuse('background', 'cannot be honoured here. Leave it out.');
  const unhonoured = new Set<string>();
  if ((keys.optional('truncation', STRING) ?? 'disabled') !== 'disabled') unhonoured.add('truncation');
  const text = new RequestKeys(keys.optional('text', OBJECT) ?? {}, 'text.');
  const jsonSchema = responseFormat(text.optional('format', OBJECT), 'text.format.');
  const { tools, namespaced } = responsesTools(keys, unhonoured);
  const messages = [...system, ...messagesOf([...before, ...items], { store, namespaced, unhonoured })];
  if (messages.length === 0) refuse('input', 'must have at least one item.');
  const settings = defined({ ...responsesSettings(keys, tools), jsonSchema });
  const model = keys.optional('model', STRING) ?? '';
  const isStreamed = keys.optional('stream', FLAG) ?? false;
  asksForUsage(keys);
  for (const name of [...text.end({ named: ['verbosity'] }), ...keys.end({ ignored: IGNORED, named: NAMED })]) unhonoured.add(name);
  const repeated = Object.fromEntries(REPEATED.flatMap((name) => ((keys.raw(name) ?? null) === null ? [] : [[name, keys.raw(name)]])));
  const offered = { tools, ...(namespaced.size === 0 ? {} : { namespaced }) };
  return { model, messages, ...offered, settings, keys: KEYS, isStreamed, unhonoured: [...unhonoured], repeated };
}

function responsesSettings(keys: RequestKeys, tools: readonly ToolSpec[]): AgentSettings {
  const included = keys.optional('include', LIST) ?? [];
  const most = keys.optional('top_logprobs', integerFrom(0, 20));
  const unknown = included.findIndex((one) => one !== LOG_PROBS && !INCLUDED.includes(one as string));
  if (unknown !== -1) refuse(`include[${unknown}]`, 'cannot be honoured here. Leave it out.');
  const isAsked = included.includes(LOG_PROBS);
  if (most !== undefined && most > 0 && !isAsked) refuse('top_logprobs', `needs "${LOG_PROBS}" in include.`);
  return defined({
    temperature: keys.optional('temperature', sampled('temperature')),
    topP: keys.optional('top_p', sampled('top_p')),
    maxTokens: keys.optional('max_output_tokens', integerFrom(1)),
    logProbs: isAsked ? (most ?? 0) : undefined,
    toolChoice: toolChoice(keys.raw('tool_choice'), tools, null),
    parallelToolCalls: keys.optional('parallel_tool_calls', FLAG),
  });
}

/**
 * Functions, also those of a namespace: under their own names, or after that of the namespace where another function has the name. Tools that OpenAI itself would run do not
 * exist here: they are left out and named.
 */
function responsesTools(
  keys: RequestKeys,
  unhonoured: Set<string>,
): { readonly tools: readonly ToolSpec[]; readonly namespaced: ReadonlyMap<string, NamespacedTool> } {
  const tools = new Map<string, ToolSpec>();
  const namespaced = new Map<string, NamespacedTool>();
  const read = (list: readonly unknown[], place: string, namespace: string | null) => {
    for (const [i, tool] of list.entries()) {
      const at = `${place}[${i}]`;
      const { type, tools: inner, name } = fieldsOf(tool);
      if (type === 'namespace' && Array.isArray(inner)) read(inner, `${at}.tools`, String(name));
      else if (type === 'function') {
        const spec = toolSpec(new RequestKeys(tool, `${at}.`), unhonoured);
        const offered = namespace !== null && tools.has(spec.name) ? `${namespace}__${spec.name}` : spec.name;
        offer(tools, { ...spec, name: offered }, at);
        if (namespace !== null) namespaced.set(offered, { namespace, name: spec.name });
      } else if (typeof type === 'string') unhonoured.add(`tools[] (${type})`);
      else refuse(`${at}.type`, 'must be a string.');
    }
  };
  read(keys.optional('tools', LIST) ?? [], 'tools', null);
  return { tools: [...tools.values()], namespaced };
}

interface OpenTurn {
  /** The id of the answer; null if no item tells it. */
  answer: string | null;
  readonly texts: string[];
  readonly thoughts: string[];
  readonly calls: ToolCall[];
}

interface ItemsRead {
  readonly store: ItemStore;
  readonly namespaced: ReadonlyMap<string, NamespacedTool>;
  /** Gets what no policy can read. */
  readonly unhonoured: Set<string>;
}

/** The id of an item of an answer, which tells it from those that clients write themselves. @param answer without underscores */
export function itemId(kind: 'rs' | 'msg' | 'fc', answer: string, index = 0): string {
  return `${kind}_vf_${answer}_${index}`;
}

const OWN_ID = /^(?:rs|msg|fc)_vf_([^_]+)_\d+$/;

function messagesOf(items: readonly unknown[], { store, namespaced, unhonoured }: ItemsRead): readonly Message[] {
  const messages: Message[] = [];
  let open: OpenTurn | null = null;
  const close = () => {
    if (open === null) return;
    const { texts, thoughts, calls } = open;
    if (texts.length + calls.length > 0)
      messages.push({
        role: 'assistant',
        content: texts.join(''),
        ...(calls.length === 0 ? {} : { toolCalls: calls }),
        ...returnedThoughts(thoughts),
      });
    open = null;
  };
  for (const [i, given] of items.entries()) {
    const place = `input[${i}]`;
    const item = referenced(given, store, place);
    const type = item['type'] ?? 'message';
    const isTurn = type === 'reasoning' || type === 'function_call' || (type === 'message' && item['role'] === 'assistant');
    if (!isTurn) {
      close();
      messages.push(type === 'message' ? itemMessage(item, place) : outputMessage(item, place));
      continue;
    }
    const [, answer = null] = OWN_ID.exec(String(item['id'])) ?? [];
    if (beginsTurn(open, { answer, type })) close();
    open ??= { answer, texts: [], thoughts: [], calls: [] };
    open.answer ??= answer;
    if (type === 'message') open.texts.push(textOf(item['content'], `${place}.content`, ''));
    else if (type === 'function_call') open.calls.push(itemCall(item, place, namespaced));
    else {
      const thoughts = [item['content'], item['summary']].map(textsIn).find((texts) => texts.length > 0) ?? [];
      if (thoughts.length === 0 && typeof item['encrypted_content'] === 'string') unhonoured.add('input[] (encrypted reasoning)');
      open.thoughts.push(...thoughts);
    }
  }
  close();
  return messages;
}

/** The texts of thoughts or their summary. */
function textsIn(parts: unknown): readonly string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap((part) => (typeof fieldsOf(part)['text'] === 'string' ? [fieldsOf(part)['text'] as string] : []));
}

/** A text after calls is of a further turn, and so is an item of another answer. */
function beginsTurn(open: OpenTurn | null, { answer, type }: Pick<OpenTurn, 'answer'> & { readonly type: unknown }): boolean {
  if (open === null) return false;
  const isOfOther = open.answer !== null && answer !== null && open.answer !== answer;
  return isOfOther || (type === 'message' && open.calls.length > 0);
}

function referenced(given: unknown, store: ItemStore, place: string): Readonly<Record<string, unknown>> {
  if (!isObject(given)) throw new AgentRefusal(400, place, `${place} must be an object.`);
  if (given['type'] !== 'item_reference') return given;
  const id = String(given['id']);
  return store.item(id) ?? refuse(`${place}.id`, `names the item ${id}, which is not of this session.`);
}

const ROLES: Readonly<Record<string, 'system' | 'user'>> = { system: 'system', developer: 'system', user: 'user' };

function itemMessage(item: Readonly<Record<string, unknown>>, place: string): Message {
  const name = String(item['role']);
  const role = Object.hasOwn(ROLES, name) ? ROLES[name]! : refuse(`${place}.role`, 'must be system, developer, user or assistant.');
  return { role, content: textOf(item['content'], `${place}.content`) };
}

function outputMessage(item: Readonly<Record<string, unknown>>, place: string): Message {
  if (item['type'] !== 'function_call_output') refuse(`${place}.type`, `is ${JSON.stringify(item['type'])}, which cannot be honoured here.`);
  const { call_id: id, output } = item;
  if (typeof id !== 'string') refuse(`${place}.call_id`, 'must be a string.');
  return { role: 'tool', toolCallId: id, content: textOf(output, `${place}.output`) };
}

function itemCall(item: Readonly<Record<string, unknown>>, place: string, namespaced: ItemsRead['namespaced']): ToolCall {
  const { call_id: id, name, namespace, arguments: args } = item;
  if (typeof id !== 'string') refuse(`${place}.call_id`, 'must be a string.');
  if (typeof name !== 'string') refuse(`${place}.name`, 'must be a string.');
  const [offered = name] = [...namespaced].find(([, tool]) => tool.namespace === namespace && tool.name === name) ?? [];
  return { id, name: offered, arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}) };
}
