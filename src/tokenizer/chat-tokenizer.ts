/**
 * Converts conversations to token ids, with any source of a tokenizer. A policy's turn is never rendered: the ids that follow it (the bridge) are found
 * by rendering the conversation with a mark in its place and taking the ids after the mark.
 */
import { ConfigError } from '../core/errors.ts';
import type { ImageRef, Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { CHATML_TOKENS, renderChatml } from './chatml.ts';
import { looksLikeControl, placesOf, privateUseCharacters } from './control-tokens.ts';
import type { ChatTemplateKind, EncodedText, PolicyTokenizer, RenderNextOptions, RenderOptions, TemplateVariables } from './policy-tokenizer.ts';
import { idsAfterTurn } from './ids-after-turn.ts';
import { placeImages } from './image-tokens.ts';
import { type RenderedParts, withLaterSystem } from './later-system-messages.ts';
import { isMilestone, shortenedHistory } from './shortened-history.ts';
import {
  mapMessageTexts,
  mapToolTexts,
  outlinedMessage,
  type PlainTemplateMessage,
  spelledMessages,
  templateImages,
  templateMessage,
  templateTool,
  type TemplateMessage,
} from './template-messages.ts';
import { isRefusal, type TemplateRequest, type TokenizerSource } from './tokenizer-source.ts';
import { cached, TokenizerMemory } from './tokenizer-memory.ts';

const PLAIN = { addSpecialTokens: false };
const QUESTION: PlainTemplateMessage = { role: 'user', content: 'a' };

/** The tokenizer of a policy; `openLocalTokenizer` opens one from a model directory. */
export class ChatTokenizer implements PolicyTokenizer {
  readonly #source: TokenizerSource;
  readonly #memory: TokenizerMemory;

  constructor(source: TokenizerSource, memory = new TokenizerMemory()) {
    this.#source = source;
    this.#memory = memory;
  }

  encode(text: string): Promise<EncodedText> {
    const wellFormed = text.toWellFormed();
    if (wellFormed === '') return Promise.resolve({ ids: new Int32Array(0), neutralised: 0 });
    return cached(this.#memory.encoded, wellFormed, () => this.#encode(wellFormed));
  }

  decode(ids: Int32Array): Promise<string> {
    return ids.length === 0 ? Promise.resolve('') : this.#source.detokenize([...ids]);
  }

  async render(
    messages: readonly Message[],
    { format = 'chat', tools = [], variables = {}, bos = 'model' }: RenderOptions = {},
  ): Promise<EncodedText> {
    const given = messages.map(templateMessage);
    if (format === 'chat' || (await this.#hasTemplate()))
      return cached(this.#memory.opened, JSON.stringify([given, tools, variables]), () =>
        withLaterSystem({ history: [], next: messages }, ({ next }) => this.#renderChat(next.map(templateMessage), tools, variables)),
      );
    if (templateImages(given).length > 0) throw new ConfigError('A prompt of bare text cannot hold an image. Play the environment as a chat.');
    const text = await this.encode(
      spelledMessages(given, '')
        .map(({ content }) => content)
        .join('\n\n'),
    );
    const first = bos === 'model' ? await this.bosIds() : [];
    return first.length === 0 ? text : { ...text, ids: Int32Array.from([...first, ...text.ids]) };
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<EncodedText> {
    const memory = this.#memory;
    const short = memory.readsWholeHistories ? history : shortenedHistory(history);
    if (short.length === history.length) return this.#bridge(history, next, options);
    if (!isMilestone(history)) return this.#bridge(short, next, options);
    const whole = await this.#bridge(history, next, options);
    const asShort = await this.#bridge(short, next, options).catch((error: unknown) => (isRefusal(error) ? null : Promise.reject(error as Error)));
    if (asShort === null || !isSame(asShort, whole)) memory.readsWholeHistories = true;
    return whole;
  }

  chatTemplate(): Promise<ChatTemplateKind> {
    return this.#memory.kind.get(() => this.#findKind());
  }

  closingToken(): Promise<number | null> {
    return this.#memory.closing.get(() => this.#findClosing());
  }

  /** The ids that the tokenizer itself adds before encoded text; empty if it adds none. */
  bosIds(): Promise<readonly number[]> {
    return this.#memory.bos.get(async () => {
      const [bare, complete] = [await this.#source.tokenize('a', PLAIN), await this.#source.tokenize('a', { addSpecialTokens: true })];
      return complete.ids.slice(0, placesOf(complete.ids, bare.ids)[0] ?? 0);
    });
  }

  /** The text of a rendered conversation, from which the behaviour of a template is found out. */
  async renderedText(request: TemplateRequest): Promise<string> {
    return this.#source.detokenize(await this.#rendered(request));
  }

  async #encode(text: string): Promise<EncodedText> {
    const { control } = this.#memory;
    const source = this.#source;
    const [sentinel = ''] = privateUseCharacters([text], 1);
    const { ids, breaks } = await control.encode(text, sentinel, source);
    const clean = await control.removeSentinels(ids, { breaks, sentinel, mayDrop: false, source });
    return { ids: Int32Array.from(clean.ids), neutralised: clean.removed };
  }

  async #renderChat(messages: readonly TemplateMessage[], tools: readonly ToolSpec[], variables: TemplateVariables): Promise<EncodedText> {
    const guarded = await this.#guard(messages, tools);
    const images = templateImages(messages);
    const spelled = await this.#spelled(guarded.messages, images);
    const request = { messages: spelled, tools: guarded.tools, variables };
    const ids = await this.#rendered({ ...request, addGenerationPrompt: true });
    const { breaks, sentinel } = guarded;
    const clean = await this.#memory.control.removeSentinels(ids, { breaks, sentinel, mayDrop: true, source: this.#source });
    return { ...this.#placed(clean.ids, images, clean.removed), ...(await this.#opening(request, ids)) };
  }

  #bridge(history: readonly Message[], next: readonly Message[], options: RenderNextOptions): Promise<EncodedText> {
    return withLaterSystem({ history, next }, (parts) => this.#afterTurn(parts, options));
  }

  async #afterTurn({ history, next }: RenderedParts, { tools = [], variables = {}, isClosed = false }: RenderNextOptions): Promise<EncodedText> {
    const { control } = this.#memory;
    const source = this.#source;
    const guarded = await this.#guard(next.map(templateMessage), tools);
    const before = history.map(outlinedMessage);
    const [mark = ''] = privateUseCharacters([guarded.sentinel, ...guarded.texts, ...before.map(({ content }) => content)], 1);
    const images = templateImages(guarded.messages);
    const request = { tools: guarded.tools, variables, from: mark };
    const { messages, ids, after } = await idsAfterTurn(
      { history: before, mark, next: await this.#spelled(guarded.messages, images) },
      {
        name: source.name,
        render: (rendered) => this.#rendered({ ...request, messages: rendered, addGenerationPrompt: true }),
        afterMark: (rendered) => this.#afterMark(rendered, mark),
      },
    );
    const bridge = await control.removeSentinels(after, { breaks: guarded.breaks, sentinel: guarded.sentinel, mayDrop: true, source });
    const closing = isClosed ? await this.closingToken() : null;
    const kept = closing !== null && bridge.ids[0] === closing ? bridge.ids.slice(1) : bridge.ids;
    const opening = await this.#opening({ ...request, messages }, ids);
    return { ...this.#placed(kept, images, bridge.removed), ...opening };
  }

  /** The text that the model's own template wrote into the policy's turn, if it wrote any. */
  async #opening(request: Omit<TemplateRequest, 'addGenerationPrompt'>, ids: readonly number[]): Promise<Pick<EncodedText, 'opening'>> {
    if ((await this.chatTemplate()) !== 'model') return {};
    const { openings, control } = this.#memory;
    const opening = await openings.of({ ...request, ids }, (asked) => this.#rendered(asked), control, this.#source);
    return opening === '' ? {} : { opening };
  }

  /** The messages with the model's own placeholder for every image; unchanged if there are no images. Throws ConfigError for an image that the model cannot see. */
  async #spelled(messages: readonly TemplateMessage[], images: readonly ImageRef[]): Promise<readonly PlainTemplateMessage[]> {
    if (images.length === 0) return spelledMessages(messages, '');
    const { imageTokens, imageSpelling } = this.#memory;
    if (imageTokens === null) throw new ConfigError('A message contains an image, but this policy reads text only. Leave the image out.');
    const { start, pad, end } = imageTokens;
    return spelledMessages(messages, await imageSpelling.get(() => this.#source.detokenize([start, pad, end])));
  }

  #placed(ids: readonly number[], images: readonly ImageRef[], neutralised: number): EncodedText {
    const { imageTokens } = this.#memory;
    if (images.length === 0 || imageTokens === null) return { ids: Int32Array.from(ids), neutralised };
    const placed = placeImages(ids, images, imageTokens);
    return { ids: Int32Array.from(placed.ids), neutralised, images: placed.images };
  }

  /** Messages and tools with a sentinel inside every spelled control token. */
  async #guard(messages: readonly TemplateMessage[], specs: readonly ToolSpec[]) {
    const tools = specs.map(templateTool);
    const texts = new Set<string>();
    const collect = (text: string) => (texts.add(text.toWellFormed()), text);
    for (const message of messages) mapMessageTexts(message, collect);
    for (const tool of tools) mapToolTexts(tool, collect);
    const [sentinel = ''] = privateUseCharacters(texts, 1);
    const guarded = await this.#memory.control.guard(texts, sentinel, this.#source);
    let breaks = 0;
    const replace = (text: string) => {
      const wellFormed = text.toWellFormed();
      const broken = guarded.get(wellFormed);
      breaks += broken?.breaks ?? 0;
      return broken?.text ?? wellFormed;
    };
    return {
      messages: messages.map((message) => mapMessageTexts(message, replace)),
      tools: tools.map((tool) => mapToolTexts(tool, replace)),
      texts,
      sentinel,
      breaks,
    };
  }

  async #rendered(request: TemplateRequest): Promise<readonly number[]> {
    const kind = await this.chatTemplate();
    if (kind === 'chatml') return (await this.#source.tokenize(renderChatml(request), PLAIN)).ids;
    const ids = kind === null ? null : await this.#source.renderTemplate(request);
    if (ids !== null) return ids;
    throw new ConfigError(
      `The model of ${this.#source.name} has no chat template, and its tokenizer has no ${CHATML_TOKENS.join(' and ')} for ChatML. ` +
        'Give the server a template (--chat-template), or play an environment in continuation format.',
    );
  }

  /** The ids after the mark; null unless it occurs exactly once. */
  async #afterMark(ids: readonly number[], mark: string): Promise<readonly number[] | null> {
    const markIds = await this.#memory.control.markIds(mark, this.#source);
    const places = placesOf(ids, markIds);
    return places.length === 1 ? ids.slice(places[0]! + markIds.length) : null;
  }

  #hasTemplate(): Promise<boolean> {
    const request = { messages: [QUESTION], tools: [], addGenerationPrompt: true };
    return this.#memory.hasTemplate.get(async () => {
      try {
        return (await this.#source.renderTemplate(request)) !== null;
      } catch (error) {
        // Only an existing template can reject a question.
        if (isRefusal(error)) return true;
        throw error;
      }
    });
  }

  async #findKind(): Promise<ChatTemplateKind> {
    if (await this.#hasTemplate()) return 'model';
    const { ids, spellings } = await this.#source.tokenize(CHATML_TOKENS.join(''), PLAIN);
    if (spellings.join() !== CHATML_TOKENS.join()) return null;
    const areControl = await Promise.all(ids.map((id, i) => this.#memory.control.isControl(id, CHATML_TOKENS[i]!, this.#source)));
    return areControl.every(Boolean) ? 'chatml' : null;
  }

  /** The control token directly after a last assistant turn. */
  async #findClosing(): Promise<number | null> {
    if ((await this.chatTemplate()) === null) return null;
    const [mark = ''] = privateUseCharacters([], 1);
    const messages = [QUESTION, { role: 'assistant', content: mark }];
    const rendered = this.#rendered({ messages, tools: [], addGenerationPrompt: false });
    const ids = await rendered.catch((error: unknown) => {
      // A template that rejects assistant messages can still open the first turn.
      if (isRefusal(error)) return [];
      throw error;
    });
    const closing = (await this.#afterMark(ids, mark))?.[0];
    if (closing === undefined) return null;
    const spelling = await this.#source.detokenize([closing]);
    return looksLikeControl(spelling) && (await this.#memory.control.isControl(closing, spelling, this.#source)) ? closing : null;
  }
}

function isSame(one: EncodedText, other: EncodedText): boolean {
  return one.opening === other.opening && one.ids.length === other.ids.length && one.ids.every((id, i) => id === other.ids[i]);
}
