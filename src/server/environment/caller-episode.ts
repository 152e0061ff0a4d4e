/**
 * One episode between its caller and the rollout loop. The loop asks for samples, the caller brings them; each turn is answered once, and the answer is kept, so
 * that a request that is sent again after a lost connection takes no second step.
 */
import { sampleProblem, type CallerAnswer, type CallerQuestion } from '../../clients/caller-sample.ts';
import { untilAborted } from '../../core/abort.ts';
import { countText } from '../../core/count-text.ts';
import { type PolicyError } from '../../core/errors.ts';
import { contentText } from '../../core/message.ts';
import type { StepSample } from '../../schemas/environment-server/episode-requests.ts';
import { wireMessage } from '../../rollouts/message-columns.ts';
import { plainNumbers } from '../../rollouts/rollout-columns.ts';
import { type EpisodeProblem, problemOf } from './episode-problem.ts';

interface OpenQuestion {
  readonly question: CallerQuestion;
  readonly given: PromiseWithResolvers<CallerAnswer>;
}

export interface CallerEpisodeOptions {
  readonly id: string;
  readonly groupId: string;
  readonly kind: CallerQuestion['kind'];
  /** Number of ids of the caller's tokenizer; null in chat kind. */
  readonly vocabularySize: number | null;
  /** Shared by episodes that are scored together; null for one that is scored alone. */
  readonly together: symbol | null;
  /** Bytes that the caller's own texts take from the start: its names and sampling parameters. */
  readonly startBytes: number;
  /** Called whenever the episode holds more bytes, or fewer. */
  readonly onBytes: (change: number) => void;
}

/** Longest text of a sample, as the largest frame of the WebSocket: far beyond any model's turn. */
const MOST_CHARACTERS = 2 ** 20;
/** Of an episode in which nothing was said yet. */
const EMPTY_BYTES = 4096;

/** An answer as a line of JSON. That of a turn is written when it is asked for: each repeats the whole conversation. */
type Answer = () => string;

export class CallerEpisode {
  readonly id: string;
  readonly groupId: string;
  readonly together: symbol | null;
  lastUsedAt = performance.now();
  /** True once the rollout loop needs no further sample. */
  isPlayed = false;
  hasEnded = false;
  readonly #options: CallerEpisodeOptions;
  /** `#answers[turn]` asks for the sample of that turn, or is the end. */
  readonly #answers: PromiseWithResolvers<Answer>[] = [Promise.withResolvers()];
  /** `#samples[turn]` answered that turn. */
  readonly #samples: StepSample[] = [];
  #open: OpenQuestion | null = null;
  #discarded: PolicyError | null = null;
  #size = 0;
  #isReleased = false;
  /** Characters of the conversation that are counted. */
  #counted = 0;

  constructor(options: CallerEpisodeOptions) {
    this.id = options.id;
    this.groupId = options.groupId;
    this.together = options.together;
    this.#options = options;
    this.#hold(EMPTY_BYTES + options.startBytes);
  }

  /** Bytes of the kept answers and samples, roughly. */
  get size(): number {
    return this.#size;
  }

  get isDiscarded(): boolean {
    return this.#discarded !== null;
  }

  /** True if it is the caller's turn. */
  get isWaitingForCaller(): boolean {
    return this.#open !== null;
  }

  /** Asks the caller for the next sample. Called by the rollout loop. */
  async ask(question: CallerQuestion, signal: AbortSignal): Promise<CallerAnswer> {
    if (this.#discarded !== null) throw this.#discarded;
    const open = { question, given: Promise.withResolvers<CallerAnswer>() };
    this.#open = open;
    // It is the caller's time from here on.
    this.lastUsedAt = performance.now();
    this.#answer(laterLine(this.id, question), bytesOf(question, this.#counted));
    this.#counted = charactersOf(question);
    return untilAborted(open.given.promise, signal);
  }

  /** Ends the episode with its record, as a line of JSON. */
  end(line: string): void {
    this.#open = null;
    this.isPlayed = true;
    this.hasEnded = true;
    this.lastUsedAt = performance.now();
    this.#answer(() => line, 2 * line.length);
  }

  /** The episode is forgotten: it counts no longer. */
  release(): void {
    if (this.#isReleased) return;
    this.#options.onBytes(-this.#size);
    this.#isReleased = true;
  }

  /** Fails the rollout at its next question. */
  discard(reason: PolicyError): void {
    this.#discarded = reason;
    this.#open?.given.reject(reason);
    this.#open = null;
  }

  /** The answer to the last sample, or the first turn. */
  current(): Promise<string> {
    this.lastUsedAt = performance.now();
    return this.#answers.at(-1)!.promise.then(written);
  }

  /** Takes a sample for a turn. Returns the answer to wait for, or the reason why the sample is refused. Takes effect before it returns. */
  step(given: StepSample): Promise<string> | EpisodeProblem {
    this.lastUsedAt = performance.now();
    const { turn } = given;
    const before = this.#samples[turn];
    if (before !== undefined) {
      return isSame(before, given)
        ? this.#answers[turn + 1]!.promise.then(written)
        : problemOf('TurnError', `Turn ${turn} was answered with another sample. Each turn takes one sample.${this.#expected()}`);
    }
    const open = this.#open;
    if (open === null || turn !== open.question.turn) return problemOf('TurnError', `The sample is for turn ${turn}.${this.#expected()}`);
    const { kind, vocabularySize } = this.#options;
    const { sample, finish, version } = given;
    if (sample.kind !== kind) return problemOf('SampleError', `The episode is played by ${KINDS[kind]}, and the sample has ${KINDS[sample.kind]}.`);
    if (open.question.kind === 'tokens' && sample.kind === 'tokens') {
      // The policy would fail the rollout for it; refused here, the turn stays open for a right one.
      const problem = sampleProblem(open.question, sample, vocabularySize!);
      if (problem !== null) return problemOf('SampleError', `${problem}.`);
    }
    if (sample.kind === 'chat' && sample.text.length > MOST_CHARACTERS)
      return problemOf(
        'SampleError',
        `text has ${countText(sample.text.length)} characters. A sample may have at most ${countText(MOST_CHARACTERS)}.`,
      );
    this.#open = null;
    this.#samples.push(given);
    this.#hold(sampleBytes(given));
    const answer = Promise.withResolvers<Answer>();
    this.#answers.push(answer);
    open.given.resolve(answerOf(open.question, given, version, finish));
    return answer.promise.then(written);
  }

  #answer(answer: Answer, bytes: number): void {
    this.#hold(bytes);
    this.#answers.at(-1)!.resolve(answer);
  }

  #hold(bytes: number): void {
    if (this.#isReleased) return;
    this.#size += bytes;
    this.#options.onBytes(bytes);
  }

  #expected(): string {
    if (this.hasEnded) return ' The episode has ended.';
    if (this.#open !== null) return ` The episode waits for a sample for turn ${this.#open.question.turn}.`;
    return this.#samples.length === 0 ? ' The episode is starting.' : ` The answer to turn ${this.#samples.length - 1} is not there yet.`;
  }
}

const KINDS = { tokens: 'token ids', chat: 'text' } as const;

function answerOf(question: CallerQuestion, { sample }: StepSample, version: number | null, finish: StepSample['finish']): CallerAnswer {
  if (sample.kind === 'chat') return { kind: 'chat', text: sample.text, finish: finish ?? 'stop', version };
  // If the caller does not say, a sample of the greatest length was cut off there; a stop string in it takes precedence.
  const ended = sample.tokenIds.length === question.maxNewTokens ? 'length' : 'stop';
  return { kind: 'tokens', tokenIds: sample.tokenIds, logProbs: sample.logProbs, finish: finish ?? ended, version };
}

function isSame(a: StepSample, b: StepSample): boolean {
  if (a.finish !== b.finish || a.version !== b.version) return false;
  if (a.sample.kind === 'chat') return b.sample.kind === 'chat' && a.sample.text === b.sample.text;
  if (b.sample.kind === 'chat') return false;
  return areEqual(a.sample.tokenIds, b.sample.tokenIds) && areEqual(a.sample.logProbs, b.sample.logProbs);
}

function areEqual(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => Object.is(value, b[i]));
}

/** Bytes that an episode keeps of a sample. */
export function sampleBytes({ sample }: StepSample): number {
  return sample.kind === 'tokens' ? 16 * sample.tokenIds.length : 2 * sample.text.length;
}

/** Bytes that a turn adds to those of the turns before it. */
function bytesOf(question: CallerQuestion, counted: number): number {
  return question.kind === 'tokens' ? 16 * question.appendIds.length : 2 * (charactersOf(question) - counted);
}

function charactersOf(question: CallerQuestion): number {
  if (question.kind === 'tokens') return 0;
  return question.messages.reduce((sum, { content }) => sum + contentText(content).length, 0);
}

function written(answer: Answer): string {
  return answer();
}

/** The rollout goes on with the same list of messages. */
function laterLine(episodeId: string, question: CallerQuestion): Answer {
  if (question.kind === 'tokens') return () => turnLine(episodeId, question);
  const { length } = question.messages;
  return () => turnLine(episodeId, { ...question, messages: question.messages.slice(0, length) });
}

function turnLine(episodeId: string, question: CallerQuestion): string {
  const { turn, turnReward = null, stop, maxNewTokens } = question;
  const wanted =
    question.kind === 'tokens'
      ? { append_ids: plainNumbers(question.appendIds), context_length: question.contextLength }
      : { messages: question.messages.map(wireMessage), ...(question.tools.length === 0 ? {} : { tools: question.tools }) };
  return JSON.stringify({ episode_id: episodeId, turn, done: false, ...turnRewardField(turnReward), ...wanted, stop, max_new_tokens: maxNewTokens });
}

/** Absent if the environment said nothing of the turn. */
export function turnRewardField(reward: number | null): { readonly turn_reward?: number } {
  return reward === null ? {} : { turn_reward: reward };
}
