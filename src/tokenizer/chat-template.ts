/** Messages to the text of a prompt, by the model's own Jinja template; what transformers gives, to the character. */
import { join } from 'node:path';
import { Template } from '@huggingface/jinja';
import { thrownText } from '../core/errors.ts';
import { type JsonObject, readTextIfPresent } from '../files/json-object.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { namedTokens } from './tokenizer-files.ts';
import { isObject } from '../schemas/is-object.ts';

export interface ChatOptions {
  /** The template ends where the assistant begins. */
  readonly addGenerationPrompt: boolean;
  /** The prompt ends with the content of the last message. */
  readonly continueFinalMessage: boolean;
  /** For the template: `tools`, `enable_thinking`, … */
  readonly variables: JsonObject;
}

const MAX_BYTES = 2 ** 22;
/** Marks the end of a message that is to be continued; the space behind it tells whether the template trims. */
const END_MARK = 'CONTINUE_FINAL_MESSAGE_TAG ';

const makeError = (message: string, options: { code: 'not_found' | 'invalid'; cause?: unknown }) => new TokenizerError(message, options);

export class ChatTemplate {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #compiled = new Map<string, Template>();
  readonly #named: Readonly<Record<string, string>>;

  private constructor(sources: ReadonlyMap<string, string>, settings: JsonObject) {
    this.#sources = sources;
    this.#named = namedTokens(settings);
  }

  /** Of chat_template.jinja, else of tokenizer_config.json (`settings`); null where neither has one. */
  static async read(directory: string, settings: JsonObject): Promise<ChatTemplate | null> {
    const path = join(directory, 'chat_template.jinja');
    const file = await readTextIfPresent(path, { maxBytes: MAX_BYTES, remedy: 'it may be left out', makeError });
    const sources = file === null ? sourcesOf(settings['chat_template']) : new Map([['default', file]]);
    return sources.size === 0 ? null : new ChatTemplate(sources, settings);
  }

  /** Throws TokenizerError where the template is broken. */
  static of(source: string, settings: JsonObject): ChatTemplate {
    const template = new ChatTemplate(new Map([['default', source]]), settings);
    template.#template(false);
    return template;
  }

  /** Throws TokenizerError where the template is broken, refuses the messages, or drops the one that is to be continued. */
  render(messages: readonly JsonObject[], { addGenerationPrompt, continueFinalMessage, variables }: ChatOptions): string {
    if (continueFinalMessage && addGenerationPrompt) {
      throw refusal('Expected one of add_generation_prompt and continue_final_message, got both', 'continue_final_message');
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
    return continueFinalMessage ? cutAtMark(text) : text;
  }

  #template(hasTools: boolean): Template {
    const name = hasTools && this.#sources.has('tool_use') ? 'tool_use' : 'default';
    const source = this.#sources.get(name);
    if (source === undefined)
      throw refusal(`Expected a chat template of the name default, the tokenizer has ${[...this.#sources.keys()].join(', ')}`);
    let template = this.#compiled.get(name);
    if (template === undefined) {
      try {
        template = new Template(source);
      } catch (cause) {
        throw refusal(`Expected a chat template that can be read, got ${oneLine(cause)}; correct the template`, 'chat_template', cause);
      }
      this.#compiled.set(name, template);
    }
    return template;
  }

  #run(template: Template, variables: Record<string, unknown>): string {
    try {
      return template.render(variables);
    } catch (cause) {
      throw refusal(`Expected messages that the model's chat template takes, it says: ${oneLine(cause)}`, 'messages', cause);
    }
  }
}

function refusal(message: string, param = 'messages', cause?: unknown): TokenizerError {
  return new TokenizerError(message, { param, cause });
}

function oneLine(thrown: unknown): string {
  return thrownText(thrown).replaceAll(/\s+/g, ' ').slice(0, 500);
}

/** A string is the default template; a list names several. */
function sourcesOf(value: unknown): ReadonlyMap<string, string> {
  if (typeof value === 'string') return new Map([['default', value]]);
  const entries = Array.isArray(value) ? value.filter(isObject).map(({ name, template }) => [name, template] as const) : [];
  return new Map(entries.filter((entry): entry is [string, string] => typeof entry[0] === 'string' && typeof entry[1] === 'string'));
}

/** The messages with the mark after the last one's content, or after its last block of text. */
function markedAtEnd(messages: readonly JsonObject[]): readonly JsonObject[] {
  const last = messages.at(-1);
  const content = last?.['content'];
  const before = messages.slice(0, -1);
  if (typeof content === 'string') return [...before, { ...last, content: content + END_MARK }];
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  const place = blocks.findLastIndex((block) => isObject(block) && typeof block['text'] === 'string');
  const block = blocks[place];
  if (!isObject(block)) throw refusal('Expected a last message with text to continue, got one without', 'continue_final_message');
  return [...before, { ...last, content: blocks.with(place, { ...block, text: `${block['text'] as string}${END_MARK}` }) }];
}

function cutAtMark(text: string): string {
  const at = text.lastIndexOf(END_MARK.trimEnd());
  if (at < 0) throw refusal('Expected a chat template that keeps the last message, which is to be continued, it drops it', 'continue_final_message');
  // Where the space behind the mark is gone, the template trims: so would it have trimmed the message.
  return text.startsWith(END_MARK, at) ? text.slice(0, at) : text.slice(0, at).trimEnd();
}
