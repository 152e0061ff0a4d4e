/** Figures about judge, NDCG and time from a trace (DDAI's analyses of its log). Pure. */
import { documentOf } from '../metrics/document-of.ts';
import { isJudged, scoredRollouts, type TracedRollout } from './traced-rollouts.ts';

/** Classes of prompts of a trace, by the share of their rollouts that succeed. */
const RATES = ['0', 'to 0.25', 'to 0.5', 'to 0.75', 'below 1', '1'] as const;

type SuccessRates = Readonly<Record<(typeof RATES)[number], number>>;

interface Latencies {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

export interface Analysis {
  readonly prompts: number;
  readonly rollouts: number;
  readonly rewardMean: number;
  /** Rollouts that a judge scored. */
  readonly judged: number;
  /** Mean over the judged rollouts, as are the next three counts; null without any, like all figures about the judge. */
  readonly judgeMean: number | null;
  /** Mean over the rollouts with an NDCG; null without any. */
  readonly ndcgMean: number | null;
  /** Prompts of the runs that called a judge, by the share of their rollouts with a score of 1; null without such a run. */
  readonly successRates: SuccessRates | null;
  /** Judge at least 0.5 and NDCG 0, with another page of a golden document. */
  readonly rightFromSameDocument: number | null;
  /** Judge at least 0.5 and NDCG 0, without its document: perhaps from the generator's own knowledge. */
  readonly rightUnsupported: number | null;
  /** Judge 0 and NDCG 1: the generator failed, or the reference answer is wrong. */
  readonly wrongWithGoldenPages: number | null;
  /** Rollouts that never searched. */
  readonly zeroSearch: number;
  /** In milliseconds, by server or role; `wait` is the time in the queue before a call. */
  readonly latencies: Readonly<Record<string, { readonly call: Latencies; readonly wait: Latencies | null }>>;
}

export function analyse(rollouts: readonly TracedRollout[]): Analysis {
  const judged = rollouts.filter(isJudged);
  const groups = Map.groupBy(scoredRollouts(rollouts, 'judge'), ({ rollout }) => rollout.prompt);
  const rates = [...groups.values()].map((own) => own.filter(({ score }) => score >= 1).length / own.length);
  const ndcgs = rollouts.flatMap(({ ndcg }) => ndcg ?? []);
  const ofJudged = <T>(value: () => T) => (judged.length === 0 ? null : value());
  const right = judged.filter(({ judge, ndcg }) => judge >= 0.5 && ndcg === 0);
  return {
    prompts: new Set(rollouts.map(({ prompt }) => prompt)).size,
    rollouts: rollouts.length,
    rewardMean: meanOf(rollouts.map(({ reward }) => reward)),
    judged: judged.length,
    judgeMean: ofJudged(() => meanOf(judged.map(({ judge }) => judge))),
    ndcgMean: ndcgs.length === 0 ? null : meanOf(ndcgs),
    successRates:
      rates.length === 0
        ? null
        : (Object.fromEntries(RATES.map((name) => [name, rates.filter((rate) => rateName(rate) === name).length])) as SuccessRates),
    rightFromSameDocument: ofJudged(() => right.filter(sharesDocument).length),
    rightUnsupported: ofJudged(() => right.filter((rollout) => !sharesDocument(rollout)).length),
    wrongWithGoldenPages: ofJudged(() => judged.filter(({ judge, ndcg }) => judge === 0 && ndcg !== null && ndcg >= 1).length),
    zeroSearch: rollouts.filter(({ hasSearched }) => !hasSearched).length,
    latencies: latenciesOf(rollouts),
  };
}

/** 0 without values. */
function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function rateName(rate: number): (typeof RATES)[number] {
  if (rate === 0 || rate === 1) return rate === 0 ? '0' : '1';
  return rate <= 0.25 ? 'to 0.25' : rate <= 0.5 ? 'to 0.5' : rate <= 0.75 ? 'to 0.75' : 'below 1';
}

function sharesDocument({ pages, golden }: TracedRollout): boolean {
  const documents = new Set(golden.map(documentOf));
  return pages.some((page) => documents.has(documentOf(page)));
}

function latenciesOf(rollouts: readonly TracedRollout[]): Analysis['latencies'] {
  const byName = Map.groupBy(
    rollouts.flatMap(({ calls }) => calls),
    ({ name }) => name,
  );
  const names = [...byName.keys()].toSorted();
  return Object.fromEntries(
    names.map((name) => {
      const calls = byName.get(name)!;
      const waits = calls.flatMap(({ waitMs }) => waitMs ?? []);
      return [name, { call: quantiles(calls.map(({ ms }) => ms)), wait: waits.length === 0 ? null : quantiles(waits) }];
    }),
  );
}

/** By nearest rank. At least one value. */
function quantiles(values: readonly number[]): Latencies {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: sorted.at(-1)! };
}
