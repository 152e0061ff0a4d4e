/** The questions to a caller that owns the policy, its answers, and the conversion of its token ids to a sample. */
import { NumericPolicyError, PolicyError } from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import { isLogProb } from '../schemas/log-prob-range.ts';
import type { SampledTokens } from '../core/token-buffer.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { IncrementalText } from '../tokenizer/incremental-text.ts';
import { StopStrings } from '../tokenizer/stop-strings.ts';
import type { TokenBytes } from '../tokenizer/tokenizer-types.ts';
import type { TextSample, Usage } from './policy-client.ts';

interface QuestionBase {
  /** 0 for the first generation of the rollout. */
  readonly turn: number;
  /** What the environment said that the turn before was worth by itself. @default it said nothing */
  readonly turnReward?: number;
  /** Strings that end the generation. The caller may sample past them; the text after them is dropped. */
  readonly stop: readonly string[];
  /** Most new tokens, at least 1; null leaves the limit to the caller. */
  readonly maxNewTokens: number | null;
}

export interface TokenQuestion extends QuestionBase {
  readonly kind: 'tokens';
  /**
   * Ids that the caller's context lacks: at first the prompt, later the tokens kept of its last sample and the observation. They follow the first
   * `contextLength - appendIds.length` tokens of the context of the turn before.
   */
  readonly appendIds: Int32Array;
  /** Number of tokens of the whole context of this turn. */
  readonly contextLength: number;
}

export interface ChatQuestion extends QuestionBase {
  readonly kind: 'chat';
  /** The whole conversation. */
  readonly messages: readonly Message[];
  /** Tools that the environment offers; usually none. */
  readonly tools: readonly ToolSpec[];
}

export type CallerQuestion = TokenQuestion | ChatQuestion;

interface AnswerBase {
  /** `length`: the token limit cut it off. */
  readonly finish: 'stop' | 'length';
  /** Version of the policy that sampled it. @default the version of the lease */
  readonly version?: number | null;
}

export interface TokenAnswer extends AnswerBase {
  readonly kind: 'tokens';
  readonly tokenIds: ArrayLike<number>;
  /** Natural-log probability of each id under the policy that sampled it. */
  readonly logProbs: ArrayLike<number>;
}

export interface ChatAnswer extends AnswerBase {
  readonly kind: 'chat';
  readonly text: string;
  /** The stop string that a chat API reports and leaves out of the text. @default unknown: the text then gets `</search>` back if it ends within an open `<search>` */
  readonly stopReason?: string | number | null;
  /** @default no tokens counted */
  readonly usage?: Usage;
}

export type CallerAnswer = TokenAnswer | ChatAnswer;

/** The reason why these tokens cannot be a sample for the question; null if they can. Log-probs are checked by `assertLogProbs`. */
export function sampleProblem(
  { maxNewTokens }: Pick<TokenQuestion, 'maxNewTokens'>,
  { tokenIds, logProbs }: Pick<TokenAnswer, 'tokenIds' | 'logProbs'>,
  vocabularySize: number,
): string | null {
  if (tokenIds.length !== logProbs.length) {
    return `token_ids has ${tokenIds.length} entries and logprobs has ${logProbs.length}; they must have the same length`;
  }
  if (maxNewTokens !== null && tokenIds.length > maxNewTokens) {
    return `token_ids has ${tokenIds.length} entries, but max_new_tokens of this turn is ${maxNewTokens}`;
  }
  for (let i = 0; i < tokenIds.length; i++) {
    const id = tokenIds[i]!;
    if (Number.isInteger(id) && id >= 0 && id < vocabularySize) continue;
    return `token_ids[${i}] is ${typeof id === 'number' ? id : 'not a number'}; the tokenizer has ids from 0 to ${vocabularySize - 1}`;
  }
  return null;
}

/** Throws PolicyError for tokens that cannot be a sample for this question. */
export function assertTokens(question: TokenQuestion, answer: TokenAnswer, vocabularySize: number): void {
  const problem = sampleProblem(question, answer, vocabularySize);
  if (problem !== null) throw new PolicyError(`The caller's answer to turn ${question.turn} cannot be used: ${problem}.`);
}

/** Throws NumericPolicyError for a log-prob that no policy can have given. */
export function assertLogProbs(logProbs: ArrayLike<number>): void {
  for (let i = 0; i < logProbs.length; i++) {
    const value = logProbs[i]!;
    if (isLogProb(value)) continue;
    throw new NumericPolicyError(
      `The caller gave log-prob ${value} for sampled token ${i}. Log-probs are finite and at most 0. Check the model and its dtype.`,
    );
  }
}

export interface SampleOptions {
  readonly bytes: TokenBytes;
  readonly prompt: Int32Array;
  readonly stop: readonly string[];
  /** The control token that ends a turn; sampling ends there as on a server. Null: none. */
  readonly closingToken: number | null;
}

/**
 * The sample that a server would have returned for these ids. It ends with the token that completes the first stop string, and its text ends with that
 * string. The text is decoded from the ids.
 */
export function sampleOfIds(
  { tokenIds, logProbs, finish }: TokenAnswer,
  { bytes, prompt, stop, closingToken }: SampleOptions,
): SampledTokens & Pick<TextSample, 'finish' | 'stopReason'> {
  const incremental = new IncrementalText(bytes, { skipSpecialTokens: true, before: prompt });
  const stops = new StopStrings(stop);
  const textEnds = new Int32Array(tokenIds.length);
  let whole = '';
  let count = 0;
  let hit: { readonly string: string; readonly end: number } | null = null;
  let isClosed = false;
  while (count < tokenIds.length && hit === null && !isClosed) {
    const id = tokenIds[count]!;
    const piece = incremental.push(id);
    whole += piece;
    textEnds[count++] = whole.length;
    hit = stops.push(piece, true);
    isClosed = hit === null && id === closingToken;
  }
  const textEnd = hit?.end ?? whole.length;
  return {
    text: whole.slice(0, textEnd),
    tail: whole.slice(textEnd),
    ids: Int32Array.from({ length: count }, (_, i) => tokenIds[i]!),
    logProbs: Float64Array.from({ length: count }, (_, i) => logProbs[i]!),
    textEnds: textEnds.subarray(0, count),
    finish: hit !== null || isClosed ? 'stop' : finish,
    stopReason: hit?.string ?? (isClosed ? closingToken : null),
  };
}
