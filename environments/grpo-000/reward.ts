/** The two rewards of the specification, as functions of text. */
import { strip, withoutWhitespace } from 'vf-search/metrics/python-text';
import { isRatioAtLeast } from 'vf-search/metrics/sequence-matcher';
import { withoutThinking } from './protocol.ts';

const ANSWER = '<answer>';
const ANSWER_END = '</answer>';
const TAG = /<(\/?)(search|information|answer)>/g;

/** The answer for a search that found nothing: "no relevant content found". */
const NOT_FOUND = '未找到相关内容';

/** The least similarity of an answer that gets a reward: the ratio of SequenceMatcher, in [0, 1]. */
const SIMILARITY = 0.5;

export interface FormatRewardOptions {
  /** True: the tags must be in order, as pairs. False: upstream's rule, which counts them only. @default true */
  readonly strict?: boolean;
  /** @default 0.5 */
  readonly reward?: number;
  /** The reward of a wrong format. @default -1 */
  readonly penalty?: number;
}

/**
 * The format reward. Closed think blocks, and whitespace at both ends, are removed; then, if strict, the tags must be any number of a search and its
 * information, and then one answer, with which the text ends. Otherwise one opening and one closing answer tag, the text ending with it, and equal numbers
 * of all four tags of search and information are enough.
 * @example formatReward('<search>q</search><information>r</information><answer>a</answer>') // 0.5
 */
export function formatReward(text: string, { strict = true, reward = 0.5, penalty = -1 }: FormatRewardOptions = {}): number {
  const visible = strip(withoutThinking(text));
  const isRight = visible.endsWith(ANSWER_END) && (strict ? isOrdered(visible) : isCounted(visible));
  return isRight ? reward : penalty;
}

/** The tags that may follow a tag; the text begins as after an information block. */
const NEXT: Readonly<Record<string, readonly string[]>> = {
  '</information>': ['<search>', ANSWER],
  '<search>': ['</search>'],
  '</search>': ['<information>'],
  '<information>': ['</information>'],
  '<answer>': [ANSWER_END],
  '</answer>': [],
};

function isOrdered(text: string): boolean {
  let last = '</information>';
  for (const [tag] of text.matchAll(TAG)) {
    if (!NEXT[last]!.includes(tag)) return false;
    last = tag;
  }
  return last === ANSWER_END;
}

function isCounted(text: string): boolean {
  const counts = new Map<string, number>();
  for (const [tag] of text.matchAll(TAG)) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  const count = (tag: string) => counts.get(tag) ?? 0;
  const searches = count('<search>');
  const areSame = ['</search>', '<information>', '</information>'].every((tag) => count(tag) === searches);
  return areSame && count(ANSWER) === 1 && count(ANSWER_END) === 1;
}

/**
 * The final answer in a reply: the first closed answer block outside of closed think blocks, else the text after the last `<answer>`, stripped; empty if there is
 * none.
 * @example finalAnswer('<think>t</think><answer> Paris') // 'Paris'
 */
export function finalAnswer(text: string): string {
  const visible = withoutThinking(text);
  const open = visible.indexOf(ANSWER);
  if (open === -1) return '';
  const close = visible.indexOf(ANSWER_END, open + ANSWER.length);
  return strip(close === -1 ? visible.slice(visible.lastIndexOf(ANSWER) + ANSWER.length) : visible.slice(open + ANSWER.length, close));
}

export interface AnswerRewardOptions {
  /** The reward of an answer that equals the truth. @default 2 */
  readonly exact?: number;
  /** The reward of a similar answer. @default 1 */
  readonly similar?: number;
  /** The reward of the sentence for an empty search. @default 0.5 */
  readonly notFound?: number;
}

/**
 * The answer reward: 0 if either is empty; `exact` if they are equal; `notFound` for the sentence 未找到相关内容; `similar` if the ratio of SequenceMatcher
 * between the two, lower-cased and without whitespace, is 0.5 or more; else 0. Takes linear time if a bound on the ratio decides.
 * @example answerReward('paris', 'Paris') // 1
 */
export function answerReward(answer: string, truth: string, { exact = 2, similar = 1, notFound = 0.5 }: AnswerRewardOptions = {}): number {
  if (answer === '' || truth === '') return 0;
  if (answer === truth) return exact;
  if (answer === NOT_FOUND) return notFound;
  const normalized = (text: string) => withoutWhitespace(text).toLowerCase();
  return isRatioAtLeast(normalized(answer), normalized(truth), SIMILARITY) ? similar : 0;
}
