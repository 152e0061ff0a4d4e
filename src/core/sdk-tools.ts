/**
 * Tools of the AI SDK, `tool({ description, inputSchema, execute })`, as tools of a ToolEnv. They are read by their shape, without the SDK or a schema library: a schema brings
 * its own JSON Schema and its own validation. The model is shown the JSON Schema that the SDK would send.
 */
import { ConfigError, EnvironmentError, thrownText } from './errors.ts';
import { contentText, type Message } from './message.ts';
import { isObject } from '../schemas/is-object.ts';
import { argumentsOrNull } from '../schemas/arguments-or-null.ts';
import { returnedText } from './returned-text.ts';
import { toolOutputText } from './sdk-tool-output.ts';
import { assertToolName, type ReadArguments, type Tool } from './tool.ts';

/** A tool of the AI SDK, by what it needs to run here. */
interface SdkTool {
  readonly inputSchema?: unknown;
  readonly description?: unknown;
  readonly execute?: ((input: never, options: never) => unknown) | undefined;
  readonly toModelOutput?: ((options: never) => unknown) | undefined;
}

/** Tools of the AI SDK by name. */
export type SdkTools = Readonly<Record<string, SdkTool>>;

/** Throws ConfigError for a tool that cannot run here, by its name. */
export function sdkTools(tools: SdkTools): readonly Tool[] {
  return Object.entries(tools).map(([name, tool]) => sdkTool(name, tool));
}

type Fields = Readonly<Record<string, unknown>>;

function sdkTool(name: string, given: SdkTool): Tool {
  assertToolName(name);
  const refuse = (why: string) => new ConfigError(`The tool ${name} of the AI SDK cannot run here: ${why}`);
  if (!isObject(given)) throw refuse(`it is ${returnedText(given)}. Give what tool() returns.`);
  const { type, id, description = '', execute, toModelOutput, needsApproval, contextSchema, inputSchema } = given as Fields & SdkTool;
  if (type === 'provider' || typeof id === 'string')
    throw refuse(`it is ${String(id)}, which a provider defines. Write a tool of your own in its place.`);
  if (typeof execute !== 'function') throw refuse('it has no execute, and no client is there to carry it out. Give it one.');
  if (needsApproval !== undefined && needsApproval !== false)
    throw refuse('it needs approval, and nobody is there to approve a call. Leave needsApproval out.');
  if (contextSchema !== undefined)
    throw refuse('it wants a context, which rollouts do not have. Close over what it needs, and leave contextSchema out.');
  if (typeof description !== 'string') throw refuse('its description is a function of the context. Give a text.');
  const { parameters, readArguments } = readSchema(inputSchema, refuse);
  return {
    name,
    description,
    parameters,
    ...(readArguments !== null && { readArguments }),
    execute: async (input, { signal, callId, messages }) => {
      const options = { toolCallId: callId, messages: sdkMessages(messages), abortSignal: signal, context: undefined };
      const output = await lastOf((execute as (input: unknown, options: unknown) => unknown)(input, options), signal);
      if (toModelOutput === undefined) return output;
      const shown = toolOutputText(await (toModelOutput as (options: unknown) => unknown)({ toolCallId: callId, input, output }));
      if ('text' in shown) return shown.text;
      throw new EnvironmentError(`toModelOutput of the tool ${name} returned ${shown.problem}`, { isOfCode: true });
    },
  };
}

/** A result in pieces is its last one. */
async function lastOf(result: unknown, signal: AbortSignal): Promise<unknown> {
  if (!isObject(result) || typeof (result as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] !== 'function') return result;
  let last: unknown;
  for await (const piece of result as unknown as AsyncIterable<unknown>) {
    signal.throwIfAborted();
    last = piece;
  }
  return last;
}

interface ReadSchema {
  readonly parameters: Fields;
  /** Null where the JSON Schema is all there is. */
  readonly readArguments: NonNullable<Tool['readArguments']> | null;
}

type Validate = (value: unknown) => unknown;

function readSchema(given: unknown, refuse: (why: string) => ConfigError): ReadSchema {
  if (given === undefined) return { parameters: { type: 'object', properties: {}, additionalProperties: false }, readArguments: null };
  // A function is a schema that is made when it is needed, unless it is one itself, as ArkType's are.
  const schema = typeof given === 'function' && !('~standard' in given) ? (given as () => unknown)() : given;
  const { '~standard': standard, jsonSchema, validate, toJSONSchema } = (schema ?? {}) as Record<string, unknown>;
  const { jsonSchema: converter, validate: validateStandard, vendor } = (standard ?? {}) as Record<string, unknown>;
  let parameters: unknown;
  try {
    const input = (converter as { readonly input?: unknown } | undefined)?.input;
    if (typeof input === 'function') parameters = closed((input as Validate)({ target: 'draft-07' }));
    else if (typeof toJSONSchema === 'function') parameters = closed((toJSONSchema as Validate).call(schema, { target: 'draft-7', io: 'input' }));
    else parameters = jsonSchema;
  } catch (cause) {
    throw refuse(`its inputSchema has no JSON Schema (${thrownText(cause).split('\n', 1)[0]}). Change the part that has none.`);
  }
  if (parameters instanceof Promise) throw refuse('its JSON Schema is a promise. Await it, and give jsonSchema() the result.');
  if (!isObject(parameters)) {
    const of = typeof vendor === 'string' ? ` of ${vendor}` : '';
    throw refuse(
      `its inputSchema${of} does not say its JSON Schema. Give a schema of Zod 4, any other with Standard JSON Schema, or jsonSchema() or zodSchema() of ai.`,
    );
  }
  const check = validateStandard ?? validate;
  return { parameters, readArguments: typeof check === 'function' ? async (args) => readValidation(await (check as Validate)(args)) : null };
}

/** Of a standard schema, `{ value }` or `{ issues }`; of the AI SDK's own, `{ success, value }` or `{ success, error }`. */
function readValidation(result: unknown): ReadArguments {
  const { value, issues, success, error } = (result ?? {}) as Record<string, unknown>;
  if (success === true || (success === undefined && issues === undefined)) return { args: value as Record<string, unknown> };
  const listed = issues ?? (error as { readonly issues?: unknown } | undefined)?.issues;
  const [first] = Array.isArray(listed) ? (listed as readonly { readonly message?: unknown; readonly path?: unknown }[]) : [];
  if (first === undefined) return { problem: thrownText(error) };
  const path = Array.isArray(first.path) ? first.path.map((part) => String(isObject(part) ? part['key'] : part)).join('.') : '';
  return { problem: `${path === '' ? '' : `${path}: `}${String(first.message)}` };
}

const LISTS = ['anyOf', 'allOf', 'oneOf'] as const;

/** As the AI SDK sends it: an object has no further properties, unless its schema describes them. */
function closed(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const { type, additionalProperties: more, properties, items, definitions } = schema;
  const each = (of: unknown) => (isObject(of) ? Object.fromEntries(Object.entries(of).map(([name, part]) => [name, closed(part)])) : of);
  const isOfObjects = type === 'object' || (Array.isArray(type) && type.includes('object'));
  return {
    ...schema,
    ...(isOfObjects && properties !== undefined && { properties: each(properties) }),
    ...(isOfObjects && { additionalProperties: isObject(more) ? closed(more) : false }),
    ...(items !== undefined && { items: Array.isArray(items) ? items.map(closed) : closed(items) }),
    ...Object.fromEntries(LISTS.flatMap((name) => (Array.isArray(schema[name]) ? [[name, (schema[name] as unknown[]).map(closed)]] : []))),
    ...(definitions !== undefined && { definitions: each(definitions) }),
  };
}

/** The conversation as the AI SDK tells it to tools: without the system prompt. */
function sdkMessages(messages: readonly Message[]): readonly Fields[] {
  const names = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id, name }) => [id, name])));
  return messages.flatMap(({ role, content, toolCalls = [], toolCallId = '' }): Fields[] => {
    const text = contentText(content);
    if (role === 'system') return [];
    if (role === 'user') return [{ role, content: text }];
    if (role === 'tool') {
      const result = { type: 'tool-result', toolCallId, toolName: names.get(toolCallId) ?? '', output: { type: 'text', value: text } };
      return [{ role, content: [result] }];
    }
    const calls = toolCalls.map(({ id, name, arguments: args }) => ({
      type: 'tool-call',
      toolCallId: id,
      toolName: name,
      input: argumentsOrNull(args) ?? args,
    }));
    return [{ role, content: [...(text === '' ? [] : [{ type: 'text', text }]), ...calls] }];
  });
}
