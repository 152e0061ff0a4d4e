/** What a model of the AI SDK answers, whole or as a stream, as a chat completion: one reader reads them all (openai-chat-reply.ts). */
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { finishKind } from './finish-reasons.ts';
import { OWN_PARTS } from './language-model-prompt.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The parts of a result that a completion has, of whatever specification. */
export interface ModelResult {
  readonly content: readonly Fields[];
  readonly finishReason: unknown;
  readonly usage: unknown;
  readonly warnings: readonly Fields[];
  readonly providerMetadata?: unknown;
  /** The provider's answer itself, or the last events of its stream. */
  readonly raw: readonly unknown[];
}

export function completionOf({ content, finishReason, usage, providerMetadata, raw }: ModelResult): unknown {
  const ofType = (type: string) => content.filter((part) => part['type'] === type);
  const texts = ofType('text').map(({ text }) => String(text));
  const thoughts = ofType('reasoning').flatMap(({ text }) => (text === '' ? [] : [String(text)]));
  // A call that the provider has carried out itself is no call of ours.
  const calls = ofType('tool-call').filter(({ providerExecuted }) => providerExecuted !== true);
  const { unified, raw: own } = isObject(finishReason) ? finishReason : { unified: finishReason, raw: undefined };
  return {
    choices: [
      {
        index: 0,
        finish_reason: endOf(unified, own),
        ...(own === undefined ? {} : { native_finish_reason: own }),
        ...ofProvider(raw, providerMetadata),
        message: {
          role: 'assistant',
          content: texts.length > 0 ? texts.join('') : calls.length > 0 || saysNothing(raw) ? '' : null,
          ...(thoughts.length === 0 ? {} : { reasoning_content: thoughts.join('\n') }),
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
          ...ownParts(content),
        },
      },
    ],
    usage: usageOf(fieldsOf(usage)),
  };
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

/** True if the provider itself answered with an empty text, for which the AI SDK has no part. */
function saysNothing(raw: readonly unknown[]): boolean {
  return raw.map(fieldsOf).some(({ content, choices }) => {
    if (Array.isArray(content)) return content.length === 0;
    return fieldsOf(listOf(choices)[0]?.['message'])['content'] === '';
  });
}

/** The provider's own word says more than the SDK's, unless they contradict each other: the SDK calls a refusal a filtered text. */
function endOf(unified: unknown, own: unknown): unknown {
  const isVague = unified === 'other' || unified === 'unknown';
  return own !== undefined && (isVague || finishKind(own) === finishKind(unified)) ? own : unified;
}

function callOf({ toolCallId, toolName, input }: Fields): Fields {
  return {
    id: toolCallId,
    type: 'function',
    function: { name: toolName, arguments: typeof input === 'string' ? input : JSON.stringify(input ?? {}) },
  };
}

/** What the provider reads again: thoughts, and what it signed. Nothing for a text and calls alone. */
function ownParts(content: readonly Fields[]): Fields {
  const parts = content.filter(
    ({ type, providerExecuted }) => ['text', 'reasoning', 'tool-call'].includes(String(type)) && providerExecuted !== true,
  );
  if (parts.every(({ type, providerMetadata }) => type !== 'reasoning' && providerMetadata === undefined)) return {};
  const returned = parts.map(({ providerMetadata, ...part }) => ({
    ...part,
    ...(part['type'] === 'tool-call' ? { input: {} } : {}),
    ...(providerMetadata === undefined ? {} : { providerOptions: providerMetadata }),
  }));
  return { [OWN_PARTS]: returned };
}

/** Fields of a choice that the reader knows and the AI SDK leaves out. */
const OF_CHOICES = ['stop_reason', 'matched_stop', 'stop_sequence', 'stopping_word', 'native_finish_reason', 'error'];

/** What the provider says of the end of its text beyond what the AI SDK has: Anthropic in its metadata, an OpenAI-compatible server in its answer. */
function ofProvider(raw: readonly unknown[], metadata: unknown): Fields {
  const sequence = Object.values(fieldsOf(metadata)).map((of) => fieldsOf(of)['stopSequence']);
  const named = sequence.find((value) => typeof value === 'string');
  const ends = raw.flatMap((answer) => listOf(fieldsOf(answer)['choices']));
  const said = ends.flatMap((choice) =>
    OF_CHOICES.flatMap((name) => (name in choice && isSet(choice['finish_reason']) ? [[name, choice[name]]] : [])),
  );
  return { ...Object.fromEntries(said), ...(named === undefined ? {} : { stop_sequence: named }) };
}

/** Specification 2 has the counts in one object, later ones by direction. */
function usageOf(usage: Fields): Fields {
  const { inputTokens: input, outputTokens: output } = usage;
  const [prompt, completion] = [isObject(input) ? input['total'] : input, isObject(output) ? output['total'] : output];
  const cached = isObject(input) ? input['cacheRead'] : usage['cachedInputTokens'];
  const reasoning = isObject(output) ? output['reasoning'] : usage['reasoningTokens'];
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

/** One line for each setting that had no effect, or another one. */
export function warningTexts(warnings: readonly Fields[], where: string): readonly string[] {
  return warnings.map(({ type, feature, setting, details, message, tool }) => {
    const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
    const name = [feature, setting, fieldsOf(tool)['name']].find(isText) ?? 'a setting';
    const more = [details, message].find(isText);
    if (String(type).startsWith('unsupported')) return `${where} does not support ${name}${more === undefined ? '' : `: ${more}`}`;
    return `${where}: ${more === undefined ? `${name} has another effect here` : more}`;
  });
}

/** Puts a stream together. */
export class StreamedResult {
  readonly #blocks = new Map<string, Record<string, unknown>>();
  readonly #content: Record<string, unknown>[] = [];
  readonly #warnings: Fields[] = [];
  readonly #raw: unknown[] = [];
  #finish: Fields | null = null;
  /** What the stream reported in place of its end. */
  error: { readonly thrown: unknown } | null = null;

  add(part: Fields): void {
    const { type } = part;
    const [, kind, step] = /^(text|reasoning)-(start|delta|end)$/.exec(String(type)) ?? [];
    if (kind !== undefined) this.#addText(kind, step!, part);
    else if (type === 'stream-start') this.#warnings.push(...((part['warnings'] ?? []) as Fields[]));
    else if (type === 'tool-call') this.#content.push({ ...part });
    else if (type === 'raw') this.#addRaw(part['rawValue']);
    else if (type === 'error') this.error ??= { thrown: part['error'] };
    else if (type === 'finish') this.#finish = part;
  }

  /** Null while the stream has no end. */
  get result(): ModelResult | null {
    if (this.#finish === null) return null;
    const { finishReason, usage, providerMetadata } = this.#finish;
    return { content: this.#content, finishReason, usage, providerMetadata, warnings: this.#warnings, raw: this.#raw };
  }

  #addText(kind: string, step: string, { id, delta, providerMetadata }: Fields): void {
    const key = `${kind} ${String(id)}`;
    let block = this.#blocks.get(key);
    if (block === undefined || step === 'start') {
      block = { type: kind, text: '' };
      this.#blocks.set(key, block);
      this.#content.push(block);
    }
    if (step === 'delta') block['text'] = String(block['text']) + String(delta);
    // A signature comes with the last piece.
    if (providerMetadata !== undefined) block['providerMetadata'] = providerMetadata;
  }

  /** Of all events, the one that ends the text says what ended it. */
  #addRaw(value: unknown): void {
    if (listOf(fieldsOf(value)['choices']).some((choice) => isSet(choice['finish_reason']))) this.#raw.push(value);
  }
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}
