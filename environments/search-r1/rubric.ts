/**
 * The reward of a rollout and its metrics. The scored sequence is always prompt, assistant anchor, response, so that a score does not depend on a model's
 * chat template (upstream gives format scores only to ChatML models).
 */
import { contentText, metric, reward, type RewardContext, Rubric } from 'vf-search';
import type { MetricDisplay, TextSegment } from 'vf-search/environment-kit';
import { emCheck, normalizeAnswer, subemCheck } from './answer.ts';
import { ASSISTANT_ANCHOR, isValidSequence } from './format.ts';
import type { QaMetric } from 'vf-search/metrics/qa-metric-names';
import { strip } from 'vf-search/metrics/python-text';
import { extractSolution, formatScore, type FormatWeights, isRetrievalCorrect } from './reward.ts';
import type { SearchR1Row } from './rows.ts';
import type { SearchR1State } from './state.ts';
import { findBlocks } from 'vf-search/metrics/tag-blocks';

/**
 * - `upstream`: the last answer in prompt and response, retrieved text included; a rollout without an answer counts as "Beijing"
 * - `completion`: the last answer that the model itself wrote; only passages count as retrieved
 */
export type Scorer = 'upstream' | 'completion';

const UNWRITTEN_ANSWER = 'have an exact match with an answer that the model did not write: a passage or the prompt contains it between answer tags.';

interface Judgement {
  readonly reward: number;
  readonly em: number;
  readonly modelEm: number;
  readonly subem: number;
  readonly formatValid: boolean;
  readonly retrievalHit: boolean;
  /** The answer that the scorer reads; empty without one. */
  readonly answer: string;
}

export interface SearchR1RubricOptions {
  /** @default 0, 0, 0, 1: plain exact match */
  readonly weights?: FormatWeights;
  /** @default 'upstream' */
  readonly scorer?: Scorer;
  /** Metrics of the answer, with weight 0; upstream's `em` is always present. @default none */
  readonly metrics?: readonly QaMetric[];
}

export function searchR1Rubric(options: SearchR1RubricOptions = {}): Rubric<SearchR1Row> {
  // Several terms need the judgement of one rollout; it is computed once.
  const judgements = new WeakMap<RewardContext<SearchR1Row>, Judgement>();
  const judged = (context: RewardContext<SearchR1Row>) => {
    let judgement = judgements.get(context);
    if (!judgement) judgements.set(context, (judgement = judge(context, options.weights ?? {}, options.scorer ?? 'upstream')));
    return judgement;
  };
  const count = (name: 'searches' | 'turns' | 'answered', display: MetricDisplay = {}) =>
    metric<SearchR1Row>(({ state }) => Number((state as SearchR1State)[name]), { name, ...display });
  return new Rubric<SearchR1Row>({
    funcs: [
      reward((c) => judged(c).reward, { name: 'search_r1' }),
      metric((c) => judged(c).em, { name: 'em', label: 'exact match', isHeadline: true }),
      metric((c) => judged(c).modelEm, { name: 'em_model_authored', label: "  in the model's own text" }),
      metric((c) => Number(judged(c).em === 1 && judged(c).modelEm === 0), { name: 'em_without_answer', remark: UNWRITTEN_ANSWER }),
      metric((c) => judged(c).subem, { name: 'subem' }),
      metric((c) => Number(judged(c).formatValid), { name: 'format_valid', label: 'valid format' }),
      metric((c) => Number(judged(c).retrievalHit), { name: 'retrieval_hit', label: 'retrieval hit' }),
      count('searches', { label: 'searches per rollout', isCount: true }),
      count('turns', { isCount: true }),
      metric(({ state }) => (state as SearchR1State).valid_action, { name: 'valid_actions', isCount: true }),
      count('answered'),
      ...(options.metrics ?? []).filter((name) => name !== 'em').map((name) => answerMetric(name, (c) => judged(c).answer)),
    ],
  });
}

function answerMetric(name: QaMetric, answerOf: (context: RewardContext<SearchR1Row>) => string) {
  return metric<SearchR1Row>(
    async (context) => {
      // Only a run that asks for a metric loads it.
      const { qaMetric } = await import('vf-search/metrics/qa-metrics');
      const { target } = context.row.info.ground_truth;
      return qaMetric(name, answerOf(context), typeof target === 'string' ? [target] : target);
    },
    { name },
  );
}

function judge(context: RewardContext<SearchR1Row>, weights: FormatWeights, scorer: Scorer): Judgement {
  const { target } = context.row.info.ground_truth;
  const sequence = scoredSequence(context);
  const answer = extractSolution(sequence);
  const modelAnswer = lastModelAnswer(context.segments);
  const em = answer === null ? 0 : emCheck(answer, target);
  const modelEm = modelAnswer === null ? 0 : emCheck(modelAnswer, target);
  const formatValid = isValidSequence(sequence).valid;
  const retrievalHit = isInPassages(context.segments, target);
  const facts =
    scorer === 'upstream'
      ? { answer: answer === null ? null : em === 1, valid: formatValid, retrieved: () => isRetrievalCorrect(sequence, target) }
      : { answer: modelAnswer === null ? null : modelEm === 1, valid: formatValid, retrieved: () => retrievalHit };
  return {
    reward: formatScore(weights, facts),
    em,
    modelEm,
    subem: answer === null ? 0 : subemCheck(answer, target),
    formatValid,
    retrievalHit,
    answer: (scorer === 'upstream' ? answer : modelAnswer) ?? '',
  };
}

/** The text that upstream would have decoded, in ChatML even if the model's own format differs. */
export function scoredSequence({ prompt, scoredText }: Pick<RewardContext, 'prompt' | 'scoredText'>): string {
  return `${prompt.map((m) => contentText(m.content)).join('\n')}${ASSISTANT_ANCHOR}\n${scoredText}`;
}

/** An answer block counts only inside one generation: a retrieved `</answer>` does not close one that the model opened. */
function lastModelAnswer(segments: readonly TextSegment[]): string | null {
  let last: string | null = null;
  for (const { kind, text } of segments) {
    if (kind !== 'model') continue;
    for (const { content } of findBlocks(text, 'answer')) last = content;
  }
  return last === null ? null : strip(last);
}

/** Tells whether a golden answer occurs in the passages that the model was shown, their labels not included. */
function isInPassages(segments: readonly TextSegment[], target: readonly string[] | string): boolean {
  const golden = (typeof target === 'string' ? [target] : target).map(normalizeAnswer).filter((answer) => answer !== '');
  return segments.some(({ kind, text }) => {
    if (kind !== 'observation') return false;
    const passages = normalizeAnswer(text.replace(/^\n\n<information>|<\/information>\n\n$/g, '').replace(/^Doc \d+\(Title: /gm, ''));
    return golden.some((answer) => passages.includes(answer));
  });
}
