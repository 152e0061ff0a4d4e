/**
 * A conversation by token ids: the policy's turns as it sampled them, and between them the environment's messages as the model's chat template
 * renders them. Sampled ids are never rendered again, even if the template would change an earlier turn.
 */
import type { TokenLease, TokenSample } from '../clients/policy-client.ts';
import type { Observation } from '../core/environment.ts';
import { contentImages, contentText, markedText, type Message } from '../core/message.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import { observedMessages } from './conversation-messages.ts';
import { bridgeTo, openConversation, type PlayedTurn, readTurn } from './conversation-turns.ts';
import { assertShowable, type OpenedBuffer, TokenTranscript } from './token-transcript.ts';
import type { Committed, TranscriptOptions } from './transcript.ts';

export class ConversationTranscript extends TokenTranscript {
  /** Everything before the policy's last turn. */
  #history: readonly Message[];
  /** The policy's last turn, while nothing follows it yet. */
  #turn: PlayedTurn | null = null;
  #prefill = '';
  #turns = 0;

  private constructor(lease: TokenLease, opened: OpenedBuffer, options: TranscriptOptions) {
    super(lease, opened, options);
    this.#history = options.prompt;
  }

  static async open(lease: TokenLease, options: TranscriptOptions): Promise<ConversationTranscript> {
    assertShowable(options.prompt, options.capabilities);
    const buffer = new TokenBuffer();
    const { ids, images, opening } = await openConversation(lease, options.prompt, options);
    buffer.appendGiven('prompt', ids, images);
    return new ConversationTranscript(lease, { buffer, opening }, options);
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
    const turn = readTurn(this.#prefill + text, { sample, isWhole, index: this.#turns }, this.options);
    const { toolCalls, recorded } = turn;
    this.segments.push({ kind: 'model', text, ...(toolCalls.length === 0 ? {} : { messages: [recorded] }) });
    this.#turn = turn;
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
    const { ids, images, opening } = await bridgeTo(this.lease, { history: this.#history, turn, next }, this.options);
    this.tokens.appendGiven(kind, ids, images);
    this.opening = opening;
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
