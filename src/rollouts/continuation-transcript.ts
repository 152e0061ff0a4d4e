/** An episode as one assistant turn: the environment's text stands raw between the policy's tokens. */
import type { TextSample, TokenLease, TokenSample } from '../clients/policy-client.ts';
import { untilAborted } from '../core/abort.ts';
import type { Observation } from '../core/environment.ts';
import { EnvironmentError } from '../core/errors.ts';
import { TokenBuffer } from '../core/token-buffer.ts';
import type { TextSegment } from '../core/rubric.ts';
import { assertText, type OpenedBuffer, TokenTranscript } from './token-transcript.ts';
import type { Committed, GenerateOptions, TranscriptOptions } from './transcript.ts';

export class ContinuationTranscript extends TokenTranscript {
  /** The last sample, while the token that ended it may still be kept. */
  #last: { readonly sample: TokenSample; readonly tokens: number } | null = null;

  static async open(lease: TokenLease, options: TranscriptOptions): Promise<ContinuationTranscript> {
    return new ContinuationTranscript(lease, await openedBuffer(lease, options), options);
  }

  override commit(sample: TokenSample, keptChars: number): Committed {
    const { tokens, overhang } = this.tokens.commit(sample, keptChars, this.lease.policy.version);
    this.#last = keptChars >= sample.text.length ? { sample, tokens } : null;
    this.segments.push({ kind: 'model', text: this.turnText(sample, keptChars) });
    return { tokens, overhang, toolCalls: [] };
  }

  override async observe(observation: Observation): Promise<void> {
    this.#last = null;
    if (!('text' in observation)) {
      throw new EnvironmentError(
        'The environment answered with messages, but in continuation format its answers are text within the assistant’s turn. Answer with text, or use turnFormat "chat".',
      );
    }
    const { text, ids } = await this.observed(observation.text);
    this.tokens.appendGiven(observation.kind, ids);
    this.segments.push({ kind: observation.kind, text });
  }

  /** Keeps the token that ended the turn only at the end of the episode: before an observation it would close a turn that continues. */
  override end(): number {
    if (this.#last === null || this.options.tokens.endOfTurn === 'dropped') return 0;
    const { sample, tokens } = this.#last;
    this.#last = null;
    return this.tokens.commitEnd(sample, tokens, this.lease.policy.version);
  }
}

async function openedBuffer(lease: TokenLease, { prompt, tools, variables, tokens, signal }: TranscriptOptions): Promise<OpenedBuffer> {
  assertText(prompt);
  const buffer = new TokenBuffer();
  const rendered = lease.render(prompt, { format: 'continuation', tools, variables, bos: tokens.bos ?? 'model' });
  const { ids, opening = '' } = await untilAborted(rendered, signal);
  buffer.appendGiven('prompt', ids);
  return { buffer, opening };
}

/** Upstream's way with a full context: the policy sees the tail, the reward sees the head of the response. For evaluation only. */
export class CutTranscript extends ContinuationTranscript {
  #contextWasCut = false;

  static override async open(lease: TokenLease, options: TranscriptOptions): Promise<CutTranscript> {
    return new CutTranscript(lease, await openedBuffer(lease, options), options);
  }

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
      else if (start < end)
        kept.push({ kind: segment.kind, text: (i === 0 ? this.firstOpening : '') + (await this.lease.decode(this.tokens.ids.slice(start, end))) });
    }
    return kept;
  }
}
