/** Adapters for metrics of answers and texts: UltraRAG's, Search-o1's, ROUGE, NLTK's stemmer, CPython's SequenceMatcher. */
import { boxed } from '../../src/metrics/boxed.ts';
import { normalizeText } from '../../src/metrics/normalize-answer.ts';
import { porterStem } from '../../src/metrics/porter.ts';
import { computeMetrics, isQaMetric, PreparedPrediction } from '../../src/metrics/qa-metrics.ts';
import { rougeTokens } from '../../src/metrics/rouge.ts';
import { isRatioAtLeast, matchingBlocks, sequenceMatcherRatio } from '../../src/metrics/sequence-matcher.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface Text {
  readonly text: string;
}

export const metricAdapters: Readonly<Record<string, Adapter>> = {
  grpo_sequence_matcher: { actual: sequenceMatcher },
  ultrarag_normalize_text: { actual: ({ text }: Text) => normalizeText(text) },
  ultrarag_metrics: {
    actual: ({ gt, pred }: { gt: readonly string[]; pred: string }, { output }: VectorCase) => {
      const prepared = new PreparedPrediction(pred, gt);
      return Object.fromEntries(Object.keys(output as object).map((name) => [name, isQaMetric(name) ? prepared.metric(name) : null]));
    },
  },
  ultrarag_compute_metrics: {
    actual: ({ gt_ls, pred_ls, metrics }: { gt_ls: readonly (readonly string[])[]; pred_ls: readonly string[]; metrics: readonly string[] | null }) =>
      computeMetrics(pred_ls, gt_ls, { metrics }),
  },
  ultrarag_boxed: { actual: ({ text }: Text) => boxed(text) },
  porter_nltk: { actual: ({ word }: { word: string }) => porterStem(word.toLowerCase(), 'nltk') },
  rouge_tokens: { actual: ({ text, stem }: Text & { stem: boolean }) => rougeTokens(text, { stem }) },
};

/** The decision about a threshold has to agree with the ratio, whichever bound takes it. */
function sequenceMatcher({ a, b }: { a: string; b: string }): unknown {
  const ratio = sequenceMatcherRatio(a, b);
  for (const threshold of [0, 0.25, 0.5, 0.75, 1, ratio]) {
    if (isRatioAtLeast(a, b, threshold) !== ratio >= threshold) throw new Error(`isRatioAtLeast is wrong at ${threshold}: the ratio is ${ratio}`);
  }
  return { ratio, blocks: matchingBlocks(a, b).map(({ aStart, bStart, size }) => [aStart, bStart, size]) };
}
