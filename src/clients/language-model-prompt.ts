/** The request of a chat completion as the options of a call in the AI SDK. What has no place there is refused by name: nothing is left out silently. */
import { ConfigError } from '../core/errors.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { argumentsOrNull } from '../schemas/arguments-or-null.ts';
import { NO_TEXT } from './openai-chat-messages.ts';
import type { ChatBody } from './openai-chat-request.ts';
import type { LanguageModel } from './language-model.ts';

type Fields = Readonly<Record<string, unknown>>;
type Version = LanguageModel['specificationVersion'];

/** Field of an assistant message that holds the model's own parts of this turn, as later requests return them to its provider. */
export const OWN_PARTS = 'language_model_parts';

/** Fields that only rename. */
const SETTINGS: Readonly<Record<string, string>> = {
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  max_tokens: 'maxOutputTokens',
  max_completion_tokens: 'maxOutputTokens',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  seed: 'seed',
};

/** Throws ConfigError for a field that the AI SDK does not have. */
export function callOptions(body: ChatBody, version: Version, providerOptions: Fields = {}): Fields {
  const { messages, model: _, tools = [], ...settings } = body;
  const options: Record<string, unknown> = { prompt: promptOf(messages, version) };
  if (tools.length > 0) options['tools'] = tools.map(toolOf);
  if (Object.keys(providerOptions).length > 0) options['providerOptions'] = providerOptions;
  for (const [name, value] of Object.entries(settings)) Object.assign(options, settingOf(name, value, { version, providerOptions }));
  return options;
}

function settingOf(
  name: string,
  value: unknown,
  { version, providerOptions }: { readonly version: Version; readonly providerOptions: Fields },
): Fields {
  if (Object.hasOwn(SETTINGS, name)) return { [SETTINGS[name]!]: value };
  if (name === 'stop') return { stopSequences: [value].flat() };
  if (name === 'reasoning_effort' && version === 'v4') return { reasoning: value };
  if (name === 'response_format') return { responseFormat: formatOf(value) };
  if (name === 'tool_choice') return { toolChoice: choiceOf(value) };
  if (name === 'provider_options' && isObject(value)) return { providerOptions: merged(providerOptions, value) };
  throw new ConfigError(
    `The AI SDK has no setting for ${name}. Leave it out of the sampling, or give it under its provider's name: {"provider_options": {"openai": {…}}}.`,
  );
}

function merged(base: Fields, more: Fields): Fields {
  return { ...base, ...Object.fromEntries(Object.entries(more).map(([name, options]) => [name, { ...fieldsOf(base[name]), ...fieldsOf(options) }])) };
}

function formatOf(format: unknown): Fields {
  const { type, json_schema: given } = fieldsOf(format);
  const { schema, name, description } = fieldsOf(given);
  if (type === 'json_schema')
    return { type: 'json', schema, ...(name === undefined ? {} : { name }), ...(description === undefined ? {} : { description }) };
  return { type: type === 'json_object' ? 'json' : 'text' };
}

function choiceOf(choice: unknown): Fields {
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: fieldsOf(fieldsOf(choice)['function'])['name'] };
}

function toolOf(tool: unknown): Fields {
  const { name, description, parameters } = fieldsOf(fieldsOf(tool)['function']);
  return { type: 'function', name, ...(description === '' ? {} : { description }), inputSchema: parameters };
}

function promptOf(messages: readonly unknown[], version: Version): Fields[] {
  const prompt: { role: unknown; content: unknown }[] = [];
  const names = new Map<unknown, unknown>();
  for (const message of messages.map(fieldsOf)) {
    const { role, content, tool_call_id: toolCallId } = message;
    if (role === 'system') prompt.push({ role, content });
    else if (role === 'user') prompt.push({ role, content: userParts(content, version) });
    else if (role === 'assistant') {
      for (const call of listOf(message['tool_calls'])) names.set(call['id'], fieldsOf(call['function'])['name']);
      prompt.push({ role, content: assistantParts(message) });
    } else {
      const result = { type: 'tool-result', toolCallId, toolName: names.get(toolCallId) ?? 'unknown', output: { type: 'text', value: content } };
      const last = prompt.at(-1);
      // The results of one turn are one message.
      if (last?.role === 'tool') (last.content as unknown[]).push(result);
      else prompt.push({ role, content: [result] });
    }
  }
  return prompt;
}

function userParts(content: unknown, version: Version): Fields[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return listOf(content).map((part) => {
    if (part['type'] === 'text') return { type: 'text', text: part['text'] };
    const [, mediaType, data] = /^data:([^;]*);base64,(.*)$/s.exec(String(fieldsOf(part['image_url'])['url'])) ?? [];
    return { type: 'file', mediaType, data: version === 'v4' ? { type: 'data', data } : data };
  });
}

/** The model's own parts, with what its provider signed, if the message says the same; else its text and its calls. */
function assistantParts(message: Fields): Fields[] {
  const { content } = message;
  const text = typeof content === 'string' && content !== NO_TEXT ? content : '';
  const calls = listOf(message['tool_calls']).map((call) => {
    const { name, arguments: args } = fieldsOf(call['function']);
    return { type: 'tool-call', toolCallId: call['id'], toolName: name, input: argumentsOrNull(String(args)) ?? {} };
  });
  // A server that refuses thoughts gets none: their field is then gone.
  const own = listOf(message[OWN_PARTS]).filter(({ type }) => type !== 'reasoning' || 'reasoning_content' in message);
  const said = own.flatMap((part) => (part['type'] === 'text' ? [String(part['text'])] : [])).join('');
  const called = own.flatMap((part) => (part['type'] === 'tool-call' ? [part['toolCallId']] : []));
  const isSame =
    own.length > 0 && text.startsWith(said) && called.length === calls.length && calls.every(({ toolCallId }) => called.includes(toolCallId));
  const isSilent = text.trim() === '' && calls.length === 0;
  // Text behind that of the parts is a stop string that the provider had left out.
  if (isSame && !isSilent)
    return [
      ...own.map((part) => ({ ...part, ...calls.find(({ toolCallId }) => toolCallId === part['toolCallId']) })),
      ...textPart(text.slice(said.length)),
    ];
  return isSilent ? textPart(NO_TEXT) : [...textPart(text), ...calls];
}

function textPart(text: string): Fields[] {
  return text === '' ? [] : [{ type: 'text', text }];
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}
