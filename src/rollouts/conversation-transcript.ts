/**
 * A conversation by token ids: the policy's turns as it sampled them, and between them the environment's messages as the model's chat template
 * renders them. Sampled ids are never rendered again, even if the template would change an earlier turn.
 */
import type { TokenLease, TokenSample } from '../clients/policy-client.ts';
import { afterClosedThoughts } from '../core/text-outside-thoughts.ts';
import { untilAborted } from '../core/abort.ts';
import type { Observation } from '../core/environment.ts';
import { contentImages, contentText, markedText, type Message } from '../core/message.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import { textBeforeCalls, toolCallAttempts, type ToolCallFormat } from '../core/tool-calls.ts';
import { assistantMessage, observedMessages } from './conversation-messages.ts';
import { assertShowable, endsWithToken, type OpenedBuffer, TokenTranscript } from './token-transcript.ts';
import type { Committed, TranscriptOptions } from './transcript.ts';

interface OpenTurn {
  readonly message: Message;
  readonly isClosed: boolean;
}

export class ConversationTranscript extends TokenTranscript {
  /** Everything before the policy's last turn. */
  #history: readonly Message[];
  /** The policy's last turn, while nothing follows it yet. */
  #turn: OpenTurn | null = null;
  #prefill = '';
  #turns = 0;

  private constructor(lease: TokenLease, opened: OpenedBuffer, options: TranscriptOptions) {
    super(lease, opened, options);
    this.#history = options.prompt;
  }

  static async open(lease: TokenLease, options: TranscriptOptions): Promise<ConversationTranscript> {
    const { prompt, tools, variables, capabilities, signal } = options;
    assertShowable(prompt, capabilities);
    const buffer = new TokenBuffer();
    const { ids, images, opening = '' } = await untilAborted(lease.render(prompt, { format: 'chat', tools, variables }), signal);
    buffer.appendGiven('prompt', ids, images);
    return new ConversationTranscript(lease, { buffer, opening: shownOpening(opening, options) }, options);
  }

  override async openTurn(prefill: string | undefined): Promise<void> {
    // The environment gave no observation: a second assistant turn follows the first.
    if (this.#turn !== null) await this.#append('observation', []);
    // What the template opened comes first.
    this.#prefill = prefill === undefined || prefill === '' ? '' : this.opening + prefill;
    await super.openTurn(prefill);
  }

  override commit(sample: TokenSample, keptChars: number): Committed {
    const keepsEnd = this.options.tokens.endOfTurn !== 'dropped';
    const { tokens, overhang, isWhole } = this.tokens.commit(sample, keptChars, this.lease.policy.version, { keepsEnd });
    const text = this.turnText(sample, keptChars);
    // A prefill may open a call.
    const turn = this.#prefill + text;
    const toolCalls = this.#toolCalls(turn);
    // Later renderings begin with the turn as it was sampled; the recorded message holds its calls once, as over a chat API.
    const message = assistantMessage(turn, toolCalls);
    const recorded = { ...message, content: this.#withoutCalls(turn) };
    this.segments.push({ kind: 'model', text, ...(toolCalls.length === 0 ? {} : { messages: [recorded] }) });
    this.#turn = { message, isClosed: isWhole && endsWithToken(sample) };
    this.#turns += 1;
    return { tokens, overhang, toolCalls, ...(this.#holdsVisionToken(tokens) ? { stop: 'vision_token_sampled' } : {}) };
  }

  override async observe(observation: Observation, { isLast }: { readonly isLast: boolean }): Promise<void> {
    const messages = await this.#withinLimits(observedMessages(observation));
    const text = messages.map(({ content }) => markedText(content)).join('\n');
    // The policy never sees an observation after its last turn.
    if (!isLast) await this.#append(observation.kind, messages);
    this.segments.push({ kind: observation.kind, text, ...('messages' in observation ? { messages } : {}) });
  }

  override end(): number {
    return 0;
  }

  async #append(kind: Observation['kind'], next: readonly Message[]): Promise<void> {
    const turn = this.#turn!;
    const { tools, variables, signal } = this.options;
    const bridge = this.lease.renderNext(this.#history, next, { tools, variables, isClosed: turn.isClosed });
    const { ids, images, opening = '' } = await untilAborted(bridge, signal);
    this.tokens.appendGiven(kind, ids, images);
    this.opening = shownOpening(opening, this.options);
    this.#history = [...this.#history, turn.message, ...next];
    this.#turn = null;
  }

  /** True if one of the last tokens opens, fills or closes an image: later prompts would be read as if an image stood there. */
  #holdsVisionToken(count: number): boolean {
    const { imageTokens = null } = this.options.capabilities;
    if (imageTokens === null) return false;
    const { start, pad, end } = imageTokens;
    const { ids } = this.tokens;
    return ids.subarray(ids.length - count).some((id) => id === start || id === pad || id === end);
  }

  #toolCalls(text: string) {
    const format = this.#callFormat;
    return format === null ? [] : toolCallAttempts(text, format, this.#turns, this.options.tools);
  }

  #withoutCalls(text: string): string {
    const format = this.#callFormat;
    return format === null ? text : textBeforeCalls(text, format);
  }

  /** Null if calls are not parsed from the text of a turn. */
  get #callFormat(): ToolCallFormat | null {
    const { tools, capabilities } = this.options;
    const { toolCalls: format = null } = capabilities;
    return tools.length === 0 || format === 'structured' ? null : format;
  }

  /** The messages with their texts cut to the limit of observations. A message with an image stays as it is: half of one would be another image. */
  async #withinLimits(messages: readonly Message[]): Promise<readonly Message[]> {
    assertShowable(messages, this.options.capabilities);
    const limited: Message[] = [];
    for (const message of messages) {
      if (contentImages(message.content).length > 0) {
        limited.push(message);
        continue;
      }
      const content = contentText(message.content);
      // A token has at least one byte, so most observations need no extra tokenization to know that they fit.
      const fits = Buffer.byteLength(content) <= this.limits.observationTokens;
      limited.push({ ...message, content: fits ? content : (await this.observed(content)).text });
    }
    return limited;
  }
}

/**
 * Thoughts that the template opened and closed, or only closed (`</think>`, DeepSeek V3.1 and GLM without thinking), are not part of a message, unless rewards read thoughts: a
 * model without thinking just answers.
 */
function shownOpening(opening: string, { readsThoughts }: TranscriptOptions): string {
  const end = afterClosedThoughts(opening);
  return readsThoughts || end === 0 || opening.slice(end).trim() !== '' ? opening : '';
}
