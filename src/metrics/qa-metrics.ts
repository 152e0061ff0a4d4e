/**
 * The question-answering metrics of UltraRAG (servers/evaluation): each compares a prediction with the golden answers of its question, both normalised by
 * `normalizeText`, and lies in [0, 1].
 */
import { normalizeText } from './normalize-answer.ts';
import { splitWords } from './python-text.ts';
import { isQaMetric, QA_METRICS, type QaMetric } from './qa-metric-names.ts';
import { rougeScores, type RougeScores, rougeTokens } from './rouge.ts';
import { commonWords } from './word-overlap.ts';

export { isQaMetric, QA_METRICS, type QaMetric };

/**
 * One metric of one prediction; 0 without golden answers. Use `PreparedPrediction` for several metrics of one prediction.
 * @example qaMetric('f1', 'It is Paris.', ['Paris']) // 0.5
 */
export function qaMetric(name: QaMetric, prediction: string, goldenAnswers: readonly string[]): number {
  return new PreparedPrediction(prediction, goldenAnswers).metric(name);
}

/** A prediction with its golden answers, normalised once and split into words if a metric needs that. */
export class PreparedPrediction {
  readonly #prediction: string;
  readonly #golden: readonly string[];
  #words: readonly string[] | undefined;
  #goldenWords: readonly (readonly string[])[] | undefined;
  #rouge: RougeScores | undefined;

  constructor(prediction: string, goldenAnswers: readonly string[]) {
    this.#prediction = normalizeText(prediction);
    this.#golden = goldenAnswers.map(normalizeText);
  }

  /** The value of one metric, in [0, 1]. */
  metric(name: QaMetric): number {
    switch (name) {
      case 'acc':
        return Number(this.#prediction !== '' && this.#golden.some((golden) => this.#prediction.includes(golden)));
      case 'acc_v20':
        return Number(this.#golden.some((golden) => golden.includes(this.#prediction)));
      case 'em':
        return Number(this.#golden.includes(this.#prediction));
      case 'stringem':
        return this.#golden.length === 0 ? 0 : this.#golden.filter((golden) => golden === this.#prediction).length / this.#golden.length;
      case 'coverem':
        return this.#coversOne();
      case 'f1':
        return this.#bestF1();
      case 'rouge-1':
        return this.#bestRouge().rouge1;
      case 'rouge-2':
        return this.#bestRouge().rouge2;
      default:
        return this.#bestRouge().rougeL;
    }
  }

  #coversOne(): number {
    const words = new Set(this.#splitPrediction());
    return Number(this.#splitGolden().some((golden) => golden.every((word) => words.has(word))));
  }

  #bestF1(): number {
    const words = this.#splitPrediction();
    return this.#splitGolden().reduce((best, golden) => {
      const same = commonWords(words, golden);
      const [precision, recall] = [same / words.length, same / golden.length];
      return same === 0 ? best : Math.max(best, (2 * precision * recall) / (precision + recall));
    }, 0);
  }

  #bestRouge(): RougeScores {
    if (this.#rouge) return this.#rouge;
    const tokens = rougeTokens(this.#prediction);
    let best: RougeScores = { rouge1: 0, rouge2: 0, rougeL: 0 };
    for (const golden of this.#golden) {
      const { rouge1, rouge2, rougeL } = rougeScores(tokens, rougeTokens(golden));
      best = { rouge1: Math.max(best.rouge1, rouge1), rouge2: Math.max(best.rouge2, rouge2), rougeL: Math.max(best.rougeL, rougeL) };
    }
    return (this.#rouge = best);
  }

  #splitPrediction(): readonly string[] {
    return (this.#words ??= splitWords(this.#prediction));
  }

  #splitGolden(): readonly (readonly string[])[] {
    return (this.#goldenWords ??= this.#golden.map(splitWords));
  }
}

/** The values of each metric by item, and their mean under `avg_` and the name; an unknown metric has no items and a mean of 0. */
export type ComputedMetrics = Readonly<Record<string, number | readonly number[]>>;

export interface ComputeMetricsOptions {
  /** Names in any case. None, or an empty list: all of `QA_METRICS`. */
  readonly metrics?: readonly string[] | null;
  /** Called with every name that is not a metric. @default nothing happens */
  readonly onUnknown?: (name: string) => void;
}

/**
 * UltraRAG's `compute_metrics` over a whole run. Lists of unequal length are cut to the shorter one, as it does.
 * @param predictions one text per question
 * @param goldenAnswers the golden answers of each question
 */
export function computeMetrics(
  predictions: readonly string[],
  goldenAnswers: readonly (readonly string[])[],
  { metrics, onUnknown = () => {} }: ComputeMetricsOptions = {},
): ComputedMetrics {
  const names = metrics && metrics.length > 0 ? metrics.map((name) => name.toLowerCase()) : QA_METRICS;
  const items = predictions.slice(0, goldenAnswers.length).map((prediction, i) => new PreparedPrediction(prediction, goldenAnswers[i]!));
  const values: Record<string, readonly number[]> = {};
  for (const name of names) {
    if (!isQaMetric(name)) onUnknown(name);
    values[name] = isQaMetric(name) ? items.map((item) => item.metric(name)) : [];
  }
  const means = Object.entries(values).map(([name, all]) => [`avg_${name}`, all.length === 0 ? 0 : all.reduce((a, b) => a + b, 0) / all.length]);
  return { ...values, ...Object.fromEntries(means) };
}
