/** The common part of transcripts by token ids: the buffer, its limits, and the environment's text as tokens. */
import type { PolicyCapabilities, TextSample, TokenLease, TokenSample } from '../clients/policy-client.ts';
import { untilAborted } from '../core/abort.ts';
import type { Observation } from '../core/environment.ts';
import { EnvironmentError } from '../core/errors.ts';
import { contentImages, type Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { TokenBuffer } from '../core/token-buffer.ts';
import type { Committed, GenerateOptions, Transcript, TranscriptLimits, TranscriptOptions } from './transcript.ts';

/** A buffer with the first prompt, and the text that the template wrote into the policy's turn. */
export interface OpenedBuffer {
  readonly buffer: TokenBuffer;
  readonly opening: string;
}

export abstract class TokenTranscript implements Transcript {
  readonly segments: TextSegment[] = [];
  readonly tokens: TokenBuffer;
  readonly lease: TokenLease;
  readonly options: TranscriptOptions;
  readonly limits: TranscriptLimits;
  cutObservations = 0;
  opening: string;
  /** The opening of the first turn. */
  protected readonly firstOpening: string;

  constructor(lease: TokenLease, { buffer, opening }: OpenedBuffer, options: TranscriptOptions) {
    this.opening = opening;
    this.firstOpening = opening;
    this.lease = lease;
    this.tokens = buffer;
    this.options = options;
    const scale = options.capabilities.lengthScale ?? 1;
    this.limits = {
      responseTokens: options.maxTokens ?? options.limits.responseTokens * scale,
      observationTokens: options.limits.observationTokens * scale,
      contextTokens: options.limits.contextTokens * scale,
      windowTokens: options.capabilities.maxModelLen ?? Infinity,
    };
  }

  abstract commit(sample: TextSample, keptChars: number): Committed;
  abstract observe(observation: Observation, options: { readonly isLast: boolean }): Promise<void>;
  abstract end(): number;

  get isCut(): boolean {
    return false;
  }

  async openTurn(prefill: string | undefined): Promise<void> {
    if (prefill === undefined || prefill === '') return;
    this.tokens.appendGiven('prefill', await untilAborted(this.lease.encode(prefill), this.options.signal));
    this.segments.push({ kind: 'prefill', text: this.opening + prefill });
    this.opening = '';
  }

  /** The text of the turn: what the template opened it with, and the kept part of the sample. */
  protected turnText(sample: TextSample, keptChars: number): string {
    const text = this.opening + sample.text.slice(0, keptChars);
    this.opening = '';
    return text;
  }

  room(): number | null {
    if (this.tokens.length > this.limits.contextTokens) return 0;
    const room = Math.min(this.limits.responseTokens, this.limits.windowTokens - this.tokens.length);
    return Number.isFinite(room) ? Math.max(0, room) : null;
  }

  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample> {
    const { ids: prompt, images } = this.tokens;
    return this.lease.generate({ ...options, prompt, maxNewTokens, ...(images.length === 0 ? {} : { images }) });
  }

  async scored(): Promise<readonly TextSegment[]> {
    return this.segments;
  }

  /** The environment's text, cut to the limit of observations, with its tokens. */
  protected async observed(text: string): Promise<{ readonly text: string; readonly ids: Int32Array }> {
    const { signal } = this.options;
    const ids = await untilAborted(this.lease.encode(text), signal);
    if (ids.length <= this.limits.observationTokens) return { text, ids };
    this.cutObservations += 1;
    const head = ids.subarray(0, this.limits.observationTokens);
    return { text: await untilAborted(this.lease.decode(head), signal), ids: head };
  }
}

/** Throws EnvironmentError for an image: raw text inside one turn cannot hold one. */
export function assertText(messages: readonly Message[]): void {
  assertShowable(messages, {});
}

/** Throws EnvironmentError for an image that the policy cannot see. vf-eval refuses an environment with an image store before the run. */
export function assertShowable(messages: readonly Message[], { imageTokens = null }: Pick<PolicyCapabilities, 'imageTokens'>): void {
  if (imageTokens !== null || messages.every(({ content }) => contentImages(content).length === 0)) return;
  throw new EnvironmentError(
    'The environment shows an image, but the policy reads text only. Use a vision-language model behind vLLM or a chat API, and add ' +
      "'images' to the `needs` of the environment, so that this is found before the run.",
    { endsRun: true },
  );
}

/** True if the policy sampled the token that ends its turn: the last one, which has no text. */
export function endsWithToken({ finish, stopReason, ids, textEnds }: TokenSample): boolean {
  const last = ids.length - 1;
  return finish === 'stop' && typeof stopReason !== 'string' && last >= 0 && textEnds[last] === (textEnds[last - 1] ?? 0);
}
