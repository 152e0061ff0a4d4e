/** The request of `POST /v1/chat/completions`, as vLLM 0.32.0 accepts it, and the part that it shares with `/tokenize`. */
import type { XStatic } from 'typebox/schema';
import { filledListOf, flagOrNull, object, text, textOrNull } from '../json-schema.ts';
import { kindOf } from '../kind-of.ts';
import { REFUSED_FIELDS } from './refused-fields.ts';
import { checkDepth, checkedFields, type Fields, type Parsed, parsed, wrongShape, wrongValue } from './request-problem.ts';
import { logProbCount, type SamplingFields, samplingFields, samplingProperties } from './sampling-fields.ts';
import { fieldsOf, isObject } from '../is-object.ts';

/** Input of a chat template. */
export interface ChatPrompt {
  /** Contents are already plain text; the arguments of calls are objects. */
  readonly messages: readonly Fields[];
  readonly addGenerationPrompt: boolean;
  readonly continueFinalMessage: boolean;
  readonly addSpecialTokens: boolean;
  /** Other variables of the template. */
  readonly variables: Fields;
}

export interface ChatRequest extends SamplingFields, ChatPrompt {
  /** Null: as many as the context window leaves. */
  readonly maxTokens: number | null;
  /** Null: no log-probs. */
  readonly logProbs: number | null;
  readonly returnPromptText: boolean;
}

const integer = samplingProperties.prompt_logprobs;
const record = { type: ['object', 'null'] } as const;

export const messages = filledListOf(object({ role: text }));

export const chatPromptProperties = {
  add_generation_prompt: flagOrNull,
  continue_final_message: flagOrNull,
  add_special_tokens: flagOrNull,
  chat_template_kwargs: record,
  tools: { type: ['array', 'null'], items: { type: 'object' } },
  documents: { type: ['array', 'null'], items: { type: 'object' } },
  reasoning_effort: textOrNull,
} as const;

const promptSchema = object({ messages }, chatPromptProperties);
export type ChatPromptWire = XStatic<typeof promptSchema>;

const schema = object(
  { messages },
  {
    ...samplingProperties,
    ...chatPromptProperties,
    max_tokens: integer,
    max_completion_tokens: integer,
    logprobs: flagOrNull,
    top_logprobs: integer,
    return_prompt_text: flagOrNull,
  },
);

/** The names of the fields that the route reads. */
export const CHAT_FIELDS: readonly string[] = [...Object.keys(schema.properties), 'chat_template', 'tool_choice', ...REFUSED_FIELDS];

export function parseChatRequest(body: unknown): Parsed<ChatRequest> {
  return parsed(() => {
    const fields = checkedFields(body, schema);
    const sampling = samplingFields(fields);
    const maxTokens = fields.max_completion_tokens ?? fields.max_tokens ?? null;
    if (maxTokens !== null && maxTokens < 1) wrongValue('max_tokens', `max_tokens must be at least 1, got ${maxTokens}.`, maxTokens);
    if (sampling.echo) wrongValue('echo', 'echo is not supported in chat by this server; leave it out');
    checkToolChoice(fields['tool_choice']);
    const top = logProbCount('top_logprobs', 'sample', fields.top_logprobs ?? 0);
    if (top !== 0 && fields.logprobs !== true) wrongValue('top_logprobs', 'when using `top_logprobs`, `logprobs` must be set to true.');
    return {
      ...sampling,
      ...chatPrompt(fields),
      maxTokens,
      logProbs: fields.logprobs === true ? top : null,
      returnPromptText: fields.return_prompt_text ?? false,
    };
  });
}

/** Ends the parser if a template cannot take the messages or variables. */
export function chatPrompt(fields: Fields & ChatPromptWire): ChatPrompt {
  for (const name of ['messages', 'tools', 'documents', 'chat_template_kwargs']) checkDepth(name, fields[name]);
  checkCallTexts(fields.messages);
  const addGenerationPrompt = fields.add_generation_prompt ?? true;
  const continueFinalMessage = fields.continue_final_message ?? false;
  if (continueFinalMessage && addGenerationPrompt) {
    wrongValue(null, 'Cannot set both `continue_final_message` and `add_generation_prompt` to True.');
  }
  if (fields['chat_template'] !== undefined && fields['chat_template'] !== null) {
    wrongValue('chat_template', "This server uses only the model's chat template, not one from a request; leave it out.");
  }
  const { tools, documents, reasoning_effort: effort, chat_template_kwargs: variables } = fields;
  return {
    messages: (fields.messages as readonly Fields[]).map(plainMessage).map(withParsedCalls),
    addGenerationPrompt,
    continueFinalMessage,
    addSpecialTokens: fields.add_special_tokens ?? false,
    variables: {
      ...(tools ? { tools } : {}),
      ...(documents ? { documents } : {}),
      ...(effort ? { reasoning_effort: effort } : {}),
      ...variables,
    },
  };
}

/** Joins text parts with line feeds, as vLLM does for templates without parts. A message without content gets empty text, because a template would print None. */
function plainMessage(given: Fields, i: number): Fields {
  // OpenAI's newer name for the system role. Templates do not know it, and vLLM replaces it too.
  const message = given['role'] === 'developer' ? { ...given, role: 'system' } : given;
  const content = message['content'] ?? '';
  if (typeof content === 'string') return { ...message, content };
  if (!Array.isArray(content)) wrongShape(`messages.${i}.content`, `text or a list of parts, got ${kindOf(content)}`);
  const texts = content.map((part: unknown, k) => {
    if (typeof part === 'string') return part;
    if (isObject(part) && typeof part['text'] === 'string') return part['text'];
    return wrongShape(`messages.${i}.content.${k}`, 'a text part, because this model reads only text');
  });
  return { ...message, content: texts.join('\n') };
}

/** Characters of the arguments of all calls: they are JSON within JSON, so nothing has measured what they become. A prompt has at most half as many. */
const MOST_CALL_CHARACTERS = 2 ** 20;

function checkCallTexts(conversation: readonly Fields[]): void {
  const calls = conversation.flatMap((message) => (Array.isArray(message['tool_calls']) ? (message['tool_calls'] as readonly unknown[]) : []));
  const written = calls.map((call) => fieldsOf(fieldsOf(call)['function'])['arguments']);
  const characters = written.reduce<number>((sum, args) => sum + (typeof args === 'string' ? args.length : 0), 0);
  if (characters <= MOST_CALL_CHARACTERS) return;
  wrongValue('messages', `The arguments of all tool calls may have at most ${MOST_CALL_CHARACTERS} characters, got ${characters}; send fewer calls`);
}

/**
 * Templates require arguments as objects, but clients send them as text; text that is not an object becomes an empty one. An empty list of calls counts as none. Both as
 * in vLLM.
 */
function withParsedCalls(message: Fields, i: number): Fields {
  const { tool_calls: calls, ...rest } = message;
  if (message['role'] !== 'assistant' || !Array.isArray(calls)) return message;
  if (calls.length === 0) return rest;
  return { ...rest, tool_calls: calls.map((call: unknown, k) => parsedCall(call, `messages.${i}.tool_calls.${k}`)) };
}

function parsedCall(call: unknown, where: string): Fields {
  const { type = 'function', function: called } = (call ?? {}) as { readonly type?: unknown; readonly function?: unknown };
  if (type !== 'function' || !isObject(called)) return wrongShape(where, 'a call of a function');
  let args: unknown = called['arguments'];
  try {
    if (typeof args === 'string') args = JSON.parse(args);
  } catch {
    args = {};
  }
  return { ...(call as Fields), function: { ...called, arguments: isObject(args) ? args : {} } };
}

/** Tools reach the template, but calls in the answer stay text, as in vLLM without a tool parser, so a request cannot force one. */
function checkToolChoice(choice: unknown): void {
  if (choice === undefined || choice === null || choice === 'none' || choice === 'auto') return;
  wrongValue('tool_choice', 'tool_choice other than "none" and "auto" is not supported by the embedded engine; leave it out');
}
