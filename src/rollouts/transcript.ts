/**
 * How an episode looks to the policy: token ids that only grow, or messages. The rollout loop speaks to either through one interface, so
 * that what is scored is the same text in both.
 */
import type { ChatLease, GenerateRequest, PolicyCapabilities, PolicyLease, TextSample, TokenLease, TokenSample } from '../clients/policy-client.ts';
import type { EnvironmentLimits, StepResult } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import { untilAborted } from './until-aborted.ts';

export type Overlong = 'stop' | 'upstream';
type GenerateOptions = Omit<GenerateRequest<never>, 'prompt' | 'maxNewTokens' | 'cut'>;
type Observation = NonNullable<StepResult['observation']>;

export interface TranscriptOptions {
  readonly prompt: readonly Message[];
  readonly limits: EnvironmentLimits;
  readonly capabilities: PolicyCapabilities;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  readonly overlong: Overlong;
  readonly turnFormat: 'continuation' | 'chat';
  /** Ends the waits for the lease; after it nothing is appended. */
  readonly signal: AbortSignal;
}

export interface Transcript {
  readonly segments: readonly TextSegment[];
  readonly tokens: TokenBuffer | null;
  readonly cutObservations: number;
  readonly isCut: boolean;
  /** New tokens the next generation may have: 0 when the context is full, null when only the server knows. */
  room(): number | null;
  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample>;
  /** Keeps the first `keptChars` characters of the sample just generated. */
  commit(sample: TextSample, keptChars: number): { tokens: number | null; overhang: string };
  observe(observation: Observation): Promise<void>;
  /** The response side as it is scored. */
  scored(): Promise<readonly TextSegment[]>;
}

export async function openTranscript(lease: PolicyLease, options: TranscriptOptions): Promise<Transcript> {
  if (lease.kind === 'chat') return new ChatTranscript(lease, options);
  const buffer = new TokenBuffer();
  buffer.appendGiven('prompt', await lease.render(options.prompt));
  return options.overlong === 'upstream' ? new CutTranscript(lease, buffer, options) : new TokenTranscript(lease, buffer, options);
}

class TokenTranscript implements Transcript {
  readonly segments: TextSegment[] = [];
  readonly tokens: TokenBuffer;
  cutObservations = 0;
  readonly lease: TokenLease;
  readonly limits: { responseTokens: number; observationTokens: number; contextTokens: number; windowTokens: number };
  readonly #turnFormat: TranscriptOptions['turnFormat'];
  readonly #signal: AbortSignal;

  constructor(lease: TokenLease, buffer: TokenBuffer, options: TranscriptOptions) {
    this.lease = lease;
    this.tokens = buffer;
    this.#turnFormat = options.turnFormat;
    this.#signal = options.signal;
    const scale = options.capabilities.lengthScale ?? 1;
    this.limits = {
      responseTokens: options.maxTokens ?? options.limits.responseTokens * scale,
      observationTokens: options.limits.observationTokens * scale,
      contextTokens: options.limits.contextTokens * scale,
      windowTokens: options.capabilities.maxModelLen ?? Infinity,
    };
  }

  get isCut(): boolean {
    return false;
  }

  room(): number | null {
    if (this.tokens.length > this.limits.contextTokens) return 0;
    const room = Math.min(this.limits.responseTokens, this.limits.windowTokens - this.tokens.length);
    return Number.isFinite(room) ? Math.max(0, room) : null;
  }

  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample> {
    return this.lease.generate({ ...options, prompt: this.tokens.ids, maxNewTokens });
  }

  commit(sample: TokenSample, keptChars: number): { tokens: number; overhang: string } {
    const committed = this.tokens.commit(sample, keptChars, this.lease.policy.version);
    this.segments.push({ kind: 'model', text: sample.text.slice(0, keptChars) });
    return committed;
  }

  async observe(observation: Observation): Promise<void> {
    if (this.#turnFormat === 'chat') {
      throw new ConfigError('Expected a chat policy: this environment answers with messages of their own, which token continuation cannot render');
    }
    let { text } = observation;
    let ids = await untilAborted(this.lease.encode(text), this.#signal);
    if (ids.length > this.limits.observationTokens) {
      ids = ids.subarray(0, this.limits.observationTokens);
      text = await untilAborted(this.lease.decode(ids), this.#signal);
      this.cutObservations += 1;
    }
    this.tokens.appendGiven(observation.kind, ids);
    this.segments.push({ kind: observation.kind, text });
  }

  async scored(): Promise<readonly TextSegment[]> {
    return this.segments;
  }
}

/** Upstream's answer to a full context: the policy sees the tail, the reward sees the head of the response. For evaluation only. */
class CutTranscript extends TokenTranscript {
  #contextWasCut = false;

  override get isCut(): boolean {
    return this.#contextWasCut || this.#responseIsCut;
  }

  get #responseIsCut(): boolean {
    return this.tokens.length - this.tokens.promptLength > this.limits.contextTokens;
  }

  override room(): number | null {
    const context = Math.min(this.tokens.length, this.limits.contextTokens);
    const room = Math.min(this.limits.responseTokens, this.limits.windowTokens - context);
    return Number.isFinite(room) ? Math.max(0, room) : null;
  }

  override generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample> {
    const start = Math.max(0, this.tokens.length - this.limits.contextTokens);
    if (start > 0) this.#contextWasCut = true;
    return this.lease.generate({ ...options, prompt: this.tokens.ids.subarray(start), maxNewTokens, cut: start > 0 });
  }

  override async scored(): Promise<readonly TextSegment[]> {
    if (!this.#responseIsCut) return this.segments;
    const end = this.tokens.promptLength + this.limits.contextTokens;
    const kept: TextSegment[] = [];
    for (const [i, { start, end: segmentEnd }] of this.tokens.segments.slice(1).entries()) {
      const segment = this.segments[i]!;
      if (segmentEnd <= end) kept.push(segment);
      else if (start < end) kept.push({ kind: segment.kind, text: await this.lease.decode(this.tokens.ids.slice(start, end)) });
    }
    return kept;
  }
}

class ChatTranscript implements Transcript {
  readonly segments: TextSegment[] = [];
  readonly tokens = null;
  readonly cutObservations = 0;
  readonly isCut = false;
  readonly #lease: ChatLease;
  readonly #messages: Message[];
  readonly #maxNewTokens: number | null;

  constructor(lease: ChatLease, options: TranscriptOptions) {
    this.#lease = lease;
    this.#messages = [...options.prompt];
    const limit = options.maxTokens ?? options.limits.responseTokens;
    this.#maxNewTokens = Number.isFinite(limit) ? limit : null;
  }

  room(): number | null {
    return this.#maxNewTokens;
  }

  generate(maxNewTokens: number | null, options: GenerateOptions): Promise<TextSample> {
    return this.#lease.generate({ ...options, prompt: this.#messages, maxNewTokens });
  }

  commit(sample: TextSample, keptChars: number): { tokens: null; overhang: string } {
    const text = sample.text.slice(0, keptChars);
    this.#messages.push({ role: 'assistant', content: text });
    this.segments.push({ kind: 'model', text });
    return { tokens: null, overhang: '' };
  }

  async observe(observation: Observation): Promise<void> {
    this.#messages.push({ role: 'user', content: observation.text });
    this.segments.push(observation);
  }

  async scored(): Promise<readonly TextSegment[]> {
    return this.segments;
  }
}
