/** Renders messages to the text of a prompt with the model's own Jinja template; the same text as transformers, to the character. */
import { libraryText } from '../core/errors.ts';
import type { ByteSource } from '../files/byte-source.ts';
import { type JsonObject, readSourceTextIfPresent } from '../files/source-text.ts';
import { OverBudget } from './python-budget.ts';
import { PythonTemplate } from './python-template.ts';
import { stripEnd, stripped } from './python-text-methods.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { namedTokens } from './tokenizer-files.ts';
import { isObject } from '../schemas/is-object.ts';

export interface ChatOptions {
  /** The prompt ends with the opening of an assistant turn. */
  readonly addGenerationPrompt: boolean;
  /** The prompt ends with the content of the last message, without closing it. */
  readonly continueFinalMessage: boolean;
  /** Variables of the template: `tools`, `enable_thinking`, … */
  readonly variables: JsonObject;
}

const MAX_BYTES = 2 ** 22;
/** Marks the end of the message to continue; whether its trailing space survives shows whether the template trims. */
const END_MARK = 'CONTINUE_FINAL_MESSAGE_TAG ';

const makeError = (message: string, options: { code: 'not_found' | 'invalid'; cause?: unknown }) => new TokenizerError(message, options);

export class ChatTemplate {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #compiled = new Map<string, PythonTemplate>();
  readonly #named: Readonly<Record<string, string>>;
  /** The refusals of templates that loop even for a short conversation; they are not rendered again. */
  readonly #endless = new Map<PythonTemplate, TokenizerError>();

  private constructor(sources: ReadonlyMap<string, string>, settings: JsonObject) {
    this.#sources = sources;
    this.#named = namedTokens(settings);
  }

  /** Reads chat_template.jinja and additional_chat_templates/tool_use.jinja, else tokenizer_config.json (`settings`); null if none has a template. */
  static async read(source: ByteSource, settings: JsonObject): Promise<ChatTemplate | null> {
    const files = new Map<string, string>();
    for (const [name, file] of [
      ['default', 'chat_template.jinja'],
      ['tool_use', 'additional_chat_templates/tool_use.jinja'],
    ] as const) {
      const text = await readSourceTextIfPresent(source, file, { maxBytes: MAX_BYTES, remedy: 'it may be left out', makeError });
      if (text !== null) files.set(name, text);
    }
    const sources = files.size === 0 ? sourcesOf(settings['chat_template']) : files;
    return sources.size === 0 ? null : new ChatTemplate(sources, settings);
  }

  /** Throws TokenizerError if the template cannot be parsed. */
  static of(source: string, settings: JsonObject): ChatTemplate {
    const template = new ChatTemplate(new Map([['default', source]]), settings);
    template.#template(false);
    return template;
  }

  /** Throws TokenizerError if the template cannot be parsed, rejects the messages, or drops the message to continue. */
  render(messages: readonly JsonObject[], { addGenerationPrompt, continueFinalMessage, variables }: ChatOptions): string {
    if (continueFinalMessage && addGenerationPrompt) {
      throw refusal('add_generation_prompt and continue_final_message are both set. Set only one.', 'continue_final_message');
    }
    const template = this.#template(Array.isArray(variables['tools']));
    const text = this.#run(template, {
      tools: null,
      documents: null,
      ...this.#named,
      ...variables,
      messages: continueFinalMessage ? markedAtEnd(messages) : messages,
      add_generation_prompt: addGenerationPrompt,
    });
    return continueFinalMessage ? cutAtMark(text, continuedText(messages.at(-1)) ?? '') : text;
  }

  #template(hasTools: boolean): PythonTemplate {
    const name = hasTools && this.#sources.has('tool_use') ? 'tool_use' : 'default';
    const source = this.#sources.get(name);
    if (source === undefined)
      throw refusal(`The tokenizer's chat templates are called ${[...this.#sources.keys()].join(', ')}. Call one of them default.`);
    let template = this.#compiled.get(name);
    if (template === undefined) {
      try {
        template = new PythonTemplate(source, { isChat: true });
      } catch (cause) {
        throw refusal(`The chat template cannot be parsed: ${libraryText(cause)}. Correct the template.`, 'chat_template', cause);
      }
      this.#compiled.set(name, template);
    }
    return template;
  }

  #run(template: PythonTemplate, variables: Record<string, unknown>): string {
    const endless = this.#endless.get(template);
    if (endless !== undefined) throw endless;
    try {
      return template.render(variables);
    } catch (cause) {
      const refused = refusal(`The model's chat template rejected the messages: ${libraryText(cause)}`, 'messages', cause);
      if (cause instanceof OverBudget && cause.isForAny) this.#endless.set(template, refused);
      throw refused;
    }
  }
}

function refusal(message: string, param = 'messages', cause?: unknown): TokenizerError {
  return new TokenizerError(message, { param, cause });
}

/** A string is the default template; a list has several, each with its name. */
function sourcesOf(value: unknown): ReadonlyMap<string, string> {
  if (typeof value === 'string') return new Map([['default', value]]);
  const entries = Array.isArray(value) ? value.filter(isObject).map(({ name, template }) => [name, template] as const) : [];
  return new Map(entries.filter((entry): entry is [string, string] => typeof entry[0] === 'string' && typeof entry[1] === 'string'));
}

/** The messages with the mark after the last message's content, or after its last text block. */
function markedAtEnd(messages: readonly JsonObject[]): readonly JsonObject[] {
  const last = messages.at(-1);
  const content = last?.['content'];
  const text = continuedText(last);
  if (text === null)
    throw refusal('The last message has no text to continue. Give it some, or leave continue_final_message out.', 'continue_final_message');
  const before = messages.slice(0, -1);
  if (!Array.isArray(content)) return [...before, { ...last, content: text + END_MARK }];
  const place = content.findLastIndex(isTextBlock);
  return [...before, { ...last, content: content.with(place, { ...(content[place] as JsonObject), text: text + END_MARK }) }];
}

/** The content of a message, or its last text block; null if it has no text. */
function continuedText(message: JsonObject | undefined): string | null {
  const content = message?.['content'];
  if (typeof content === 'string') return content;
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  return blocks.findLast(isTextBlock)?.text ?? null;
}

function isTextBlock(block: unknown): block is { readonly text: string } {
  return isObject(block) && typeof block['text'] === 'string';
}

/** Throws if the template dropped the continued text, or a part of it. */
function cutAtMark(text: string, continued: string): string {
  const at = text.lastIndexOf(END_MARK.trimEnd());
  if (at < 0 || !text.includes(stripped(continued)))
    throw refusal(
      'The chat template drops the last message or changes it, so it cannot be continued. Leave continue_final_message out.',
      'continue_final_message',
    );
  // If the space after the mark is gone, the template trims contents, so it would have trimmed the message too.
  return text.startsWith(END_MARK, at) ? text.slice(0, at) : stripEnd(text.slice(0, at), null);
}
