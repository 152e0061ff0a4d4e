/** An episode over an API of messages: every turn of the policy is an assistant message, and every text of the environment a separate message. There are no tokens. */
import type { ChatLease, TextSample } from '../clients/policy-client.ts';
import type { Observation } from '../core/environment.ts';
import { EnvironmentError, PolicyError } from '../core/errors.ts';
import { markedText, type Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import { type LeftCalls, leftToolCalls } from '../core/left-tool-calls.ts';
import { isToolCall, readToolCall } from '../core/tool-calls.ts';
import { assistantMessage, observedMessages } from './conversation-messages.ts';
import type { Committed, GenerateOptions, Transcript, TranscriptOptions } from './transcript.ts';

export class ChatTranscript implements Transcript {
  readonly segments: TextSegment[] = [];
  readonly tokens = null;
  readonly limits = null;
  readonly opening = '';
  readonly cutObservations = 0;
  readonly isCut = false;
  readonly #lease: ChatLease;
  readonly #options: TranscriptOptions;
  readonly #messages: Message[];
  readonly #maxNewTokens: number | null;
  #prefill = '';
  #turns = 0;

  constructor(lease: ChatLease, options: TranscriptOptions) {
    this.#lease = lease;
    this.#options = options;
    this.#messages = [...options.prompt];
    const limit = options.maxTokens ?? options.limits.responseTokens * (options.capabilities.lengthScale ?? 1);
    this.#maxNewTokens = Number.isFinite(limit) ? limit : null;
  }

  /** Everything that the policy has read and written so far. */
  get messages(): readonly Message[] {
    return this.#messages;
  }

  async openTurn(prefill: string | undefined): Promise<void> {
    this.#prefill = prefill ?? '';
    // A declared prefill is refused before the run; one of a single turn only shows up here. Most servers would ignore it.
    if (this.#prefill !== '' && this.#options.capabilities.prefill !== true) {
      throw new EnvironmentError(
        "The environment opens the assistant's turn (prefill), but the policy only takes whole messages. Use a policy with token ids, such as vLLM, and add " +
          "'prefill' to the `needs` of the environment, so that this is found before the run.",
        { endsRun: true },
      );
    }
    if (this.#prefill !== '') this.segments.push({ kind: 'prefill', text: this.#prefill });
  }

  room(): number | null {
    return this.#maxNewTokens;
  }

  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample> {
    const { tools } = this.#options;
    return this.#lease.generate({
      ...options,
      prompt: this.#messages,
      maxNewTokens,
      ...(this.#prefill === '' ? {} : { prefill: this.#prefill }),
      ...(tools.length === 0 ? {} : { tools }),
    });
  }

  commit(sample: TextSample, keptChars: number): Committed {
    const text = sample.text.slice(0, keptChars);
    const isWhole = keptChars >= sample.text.length;
    const left = this.#toolCalls(sample, text, isWhole);
    const toolCalls = left.attempts;
    const message = { ...this.#message(sample, text, left), ...returned(sample, isWhole) };
    this.#messages.push(message);
    const { reasoning } = sample;
    this.segments.push({
      kind: 'model',
      text,
      ...(toolCalls.length === 0 ? {} : { messages: [message] }),
      ...(reasoning === undefined ? {} : { reasoning }),
    });
    this.#turns += 1;
    return { tokens: null, overhang: '', toolCalls };
  }

  async observe(observation: Observation): Promise<void> {
    const messages = observedMessages(observation);
    this.#messages.push(...messages);
    const text = messages.map(({ content }) => markedText(content)).join('\n');
    this.segments.push({ kind: observation.kind, text, ...('messages' in observation ? { messages } : {}) });
  }

  end(): number {
    return 0;
  }

  async scored(): Promise<readonly TextSegment[]> {
    return this.segments;
  }

  /** The calls that the server parsed; if it parsed none, those that the text spells. */
  #toolCalls({ toolCalls }: TextSample, text: string, isWhole: boolean): LeftCalls {
    if (this.#options.tools.length === 0) return { attempts: [], content: text };
    if (toolCalls === undefined || toolCalls.length === 0) return leftToolCalls(text, this.#turns, this.#options.tools);
    const odd = toolCalls.find((call) => !isToolCall(call));
    if (odd !== undefined)
      throw new PolicyError(`The policy's client gave a tool call that is not { id, name, arguments }, three texts: ${JSON.stringify(odd)}`, {
        endsRun: true,
      });
    return { attempts: isWhole ? toolCalls.map(readToolCall) : [], content: text };
  }

  /** The assistant message with its calls, which the answers refer to by id, whether the server parsed them or left them in the text. */
  #message({ toolCalls = [], content = '' }: TextSample, text: string, left: LeftCalls): Message {
    if (left.attempts.length === 0) return assistantMessage(this.#prefill + text, []);
    if (toolCalls.length > 0) return { role: 'assistant', content: this.#prefill + content, toolCalls };
    return assistantMessage(this.#prefill + left.content, left.attempts);
  }
}

/** What goes back to the server with the turn; its own form of the content only if the turn is whole. */
function returned({ serverFields }: TextSample, isWhole: boolean): Pick<Message, 'serverFields'> {
  if (serverFields === undefined) return {};
  const { content, ...others } = serverFields;
  return { serverFields: isWhole && content !== undefined ? serverFields : others };
}
