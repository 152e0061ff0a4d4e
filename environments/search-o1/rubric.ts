/** The reward is one metric of the boxed answer. The others are metrics of weight 0. */
import { metric, reward, type RewardContext, type Row, Rubric } from 'vf-search';
import type { TextSegment } from 'vf-search/environment-kit';
import { type AnswerScores, answerScores, choiceScores } from 'vf-search/metrics/answer-scores';
import { qaMetric } from 'vf-search/metrics/qa-metrics';
import { extractAnswer } from './extract.ts';
import { searchResult } from './markers.ts';
import type { Instruction } from './prompt.ts';
import type { SearchO1State } from './state.ts';

export interface SearchO1Row extends Row {
  readonly info: { readonly question: string; readonly golden_answers: readonly string[] } & Record<string, unknown>;
}

export const SEARCH_O1_METRICS = ['em', 'f1', 'acc', 'coverem'] as const;

/** `em`, `f1`, `acc`: upstream's; `coverem`: UltraRAG's, 1 if the answer has every word of a golden answer. */
export type SearchO1Metric = (typeof SEARCH_O1_METRICS)[number];

/**
 * - `completion`: the last boxed answer that the model itself wrote
 * - `upstream`: the last one in the whole text, the refiner's words included
 */
export type Scorer = 'completion' | 'upstream';

export interface SearchO1RubricOptions {
  /** The way in which answers are read and compared: `gpqa` as letters, `math` as text. @default 'singleqa' */
  readonly instruction?: Instruction;
  /** @default 'em' */
  readonly metric?: SearchO1Metric;
  /** @default 'completion' */
  readonly scorer?: Scorer;
}

interface Judgement extends AnswerScores {
  readonly answer: string;
  readonly coverem: number;
}

const LABELS: Readonly<Record<SearchO1Metric, string>> = { em: 'exact match', f1: 'F1', acc: 'contains the answer', coverem: 'covers the answer' };

export function searchO1Rubric({
  instruction = 'singleqa',
  metric: rewarded = 'em',
  scorer = 'completion',
}: SearchO1RubricOptions = {}): Rubric<SearchO1Row> {
  // Several terms need the judgement of one rollout; it is computed once.
  const judgements = new WeakMap<RewardContext<SearchO1Row>, Judgement>();
  const judged = (context: RewardContext<SearchO1Row>) => {
    let judgement = judgements.get(context);
    if (!judgement) judgements.set(context, (judgement = judge(context, instruction, scorer)));
    return judgement;
  };
  const stateOf = ({ state }: RewardContext<SearchO1Row>) => state as SearchO1State;
  return new Rubric<SearchO1Row>({
    funcs: [
      ...SEARCH_O1_METRICS.toSorted((a, b) => Number(b === rewarded) - Number(a === rewarded)).map((name) => {
        const display = { name, label: LABELS[name], isHeadline: name === rewarded };
        return name === rewarded ? reward<SearchO1Row>((c) => judged(c)[name], display) : metric<SearchO1Row>((c) => judged(c)[name], display);
      }),
      metric((c) => Number(judged(c).answer !== ''), { name: 'answered' }),
      metric((c) => Number(stateOf(c).searches > 0), { name: 'searched' }),
      metric((c) => stateOf(c).searches, { name: 'searches', label: 'searches per rollout', isCount: true }),
      metric((c) => stateOf(c).turns, { name: 'turns', isCount: true }),
      metric((c) => stateOf(c).repeated_queries, { name: 'repeated_queries', isCount: true }),
      metric((c) => stateOf(c).refused_queries, { name: 'refused_queries', isCount: true }),
    ],
  });
}

const EMPTY_RESULT = searchResult('');

/** The judged text: with `completion`, every result and note is replaced by an empty result. */
export function judgedText(segments: readonly TextSegment[], scorer: Scorer): string {
  return segments.map(({ kind, text }) => (kind === 'model' || scorer === 'upstream' ? text : EMPTY_RESULT)).join('');
}

function judge({ segments, row }: RewardContext<SearchO1Row>, instruction: Instruction, scorer: Scorer): Judgement {
  const { golden_answers: golden } = row.info;
  const mode = instruction === 'math' ? 'gen' : instruction === 'gpqa' ? 'choose' : 'qa';
  const answer = extractAnswer(judgedText(segments, scorer), mode);
  const scores = mode === 'qa' ? answerScores(answer, golden) : bestOf(golden.map((choice) => choiceScores(answer, choice)));
  return { ...scores, answer, coverem: qaMetric('coverem', answer, golden) };
}

function bestOf(scores: readonly AnswerScores[]): AnswerScores {
  const most = <N extends keyof AnswerScores>(name: N) => scores.reduce<AnswerScores[N]>((best, s) => (s[name] > best ? s[name] : best), 0);
  return { acc: most('acc'), em: most('em'), f1: most('f1') };
}
