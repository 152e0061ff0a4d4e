/** Parts of requests that several APIs share. */
import type { Message } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import type { AgentSettings, ToolChoice } from '../agent-request.ts';
import { FLAG, OBJECT, refuse, RequestKeys, STRING } from './request-keys.ts';

/** Keys that say who asks, what it may cost and where it is kept. */
export const OPENAI_IGNORED = ['user', 'metadata', 'store', 'service_tier', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention'];

/** The schema of `{ type: "json_schema" }`, null for any JSON, undefined for text. */
export function responseFormat(format: Readonly<Record<string, unknown>> | undefined, place: string): AgentSettings['jsonSchema'] | undefined {
  if (format === undefined || format['type'] === 'text') return undefined;
  if (format['type'] === 'json_object') return null;
  if (format['type'] !== 'json_schema') return refuse(`${place}type`, 'must be "text", "json_object" or "json_schema".');
  const isNested = isObject(format['json_schema']);
  const schema = isNested ? fieldsOf(format['json_schema'])['schema'] : format['schema'];
  return isObject(schema) ? schema : refuse(`${place}${isNested ? 'json_schema.' : ''}schema`, 'must be a JSON Schema.');
}

/** @param key of the object that holds the name in Chat; null where it stands next to the type */
export function toolChoice(choice: unknown, tools: readonly ToolSpec[], key: 'function' | null): ToolChoice | undefined {
  if (choice === undefined || choice === null) return undefined;
  if (choice === 'auto' || choice === 'none' || choice === 'required') return possibleChoice(choice, tools);
  const { type } = fieldsOf(choice);
  const { name } = fieldsOf(key === null ? choice : fieldsOf(choice)[key]);
  if (type !== 'function' || typeof name !== 'string') return refuse('tool_choice', 'must be "auto", "none", "required" or one function.');
  return possibleChoice({ name }, tools);
}

/** Throws AgentRefusal if no tool that is offered can be called. @param key of the choice in the request. @default 'tool_choice' */
export function possibleChoice(choice: ToolChoice, tools: readonly ToolSpec[], key = 'tool_choice'): ToolChoice {
  if (choice === 'required' && tools.length === 0) refuse(key, 'cannot be honoured: the request offers no tool.');
  if (typeof choice === 'object' && !tools.some(({ name }) => name === choice.name))
    refuse(key, `names ${JSON.stringify(choice.name)}, which is not one of the tools that the request offers.`);
  return choice;
}

/** Parts of text, by dialect. */
const TEXT_PARTS: readonly unknown[] = ['text', 'input_text', 'output_text'];

/**
 * The text of a content: a string, or parts. Keys of a part that are not read are a client's own.
 * @param between the parts. An assistant's are pieces of one text, which a client may send back in other pieces. @default a line break
 */
export function textOf(content: unknown, place: string, between = '\n'): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return refuse(place, 'must be a string or a list of parts.');
  return content
    .map((part: unknown, i): string => {
      const { type, text, refusal } = fieldsOf(part);
      if (TEXT_PARTS.includes(type) && typeof text === 'string') return text;
      if (type === 'refusal' && typeof refusal === 'string') return refusal;
      return refuse(`${place}[${i}]`, 'must be a text, because this policy reads text only.');
    })
    .join(between);
}

/** Thoughts that an agent sends back with a turn, under the name that servers and chat templates have for them. */
export function returnedThoughts(thoughts: readonly string[]): Pick<Message, 'serverFields'> {
  return thoughts.length === 0 ? {} : { serverFields: { reasoning_content: thoughts.join('\n') } };
}

/** True if a stream ends with the counts of tokens. Padded events, against those who watch a connection, change no answer. */
export function asksForUsage(keys: RequestKeys): boolean {
  const options = new RequestKeys(keys.optional('stream_options', OBJECT) ?? {}, 'stream_options.');
  const isAsked = options.optional('include_usage', FLAG) ?? false;
  options.end({ ignored: ['include_obfuscation'] });
  return isAsked;
}

/** Throws AgentRefusal if another tool has the name. @param place of the tool in the request */
export function offer(tools: Map<string, ToolSpec>, tool: ToolSpec, place: string): void {
  if (tools.has(tool.name)) refuse(`${place}.name`, `is ${JSON.stringify(tool.name)}, which is also the name of another tool.`);
  tools.set(tool.name, tool);
}

const NO_PARAMETERS = { type: 'object', properties: {} };
/** Keys of a tool that are for the cache or the stream of its server. */
const OF_TOOLS = ['type', 'cache_control', 'eager_input_streaming', 'defer_loading'];

/**
 * @param unhonoured gets the keys that may change what a model of the vendor writes
 * @param parameters the key of the JSON Schema. @default 'parameters'
 */
export function toolSpec(keys: RequestKeys, unhonoured: Set<string>, parameters = 'parameters'): ToolSpec {
  const spec = {
    name: keys.required('name', STRING),
    description: keys.optional('description', STRING) ?? '',
    parameters: keys.optional(parameters, OBJECT) ?? NO_PARAMETERS,
  };
  // False says that nothing is asked for.
  if (keys.raw('strict') === true) unhonoured.add('tools[].strict');
  for (const name of keys.end({
    ignored: OF_TOOLS,
    named: ['output_schema', 'input_examples', 'allowed_callers', 'inputExamples', 'providerOptions'],
  }))
    unhonoured.add(name.replace(/\[\d+\]/g, '[]'));
  return spec;
}
