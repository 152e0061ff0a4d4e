/** What a trace says about judge, NDCG and time (DDAI's analyses of its log). Pure. */
import { documentOf } from './documents.ts';
import type { TracedRollout } from './traced-rollouts.ts';

/** Shares of rollouts that succeed, of the prompts of a trace. */
const RATES = ['0', 'to 0.25', 'to 0.5', 'to 0.75', 'below 1', '1'] as const;

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
  readonly judgeMean: number;
  readonly ndcgMean: number;
  /** Prompts by the share of their rollouts with a judge score of 1. */
  readonly successRates: Readonly<Record<(typeof RATES)[number], number>>;
  /** Judge at least 0.5 and NDCG 0, with another page of a golden document. */
  readonly rightFromSameDocument: number;
  /** Judge at least 0.5 and NDCG 0, without its document: perhaps from what the generator knows itself. */
  readonly rightUnsupported: number;
  /** Judge 0 and NDCG 1: the generator, or the reference answer. */
  readonly wrongWithGoldenPages: number;
  /** Rollouts that never searched. */
  readonly zeroSearch: number;
  /** In milliseconds, by server or role; `wait` is the time in the queue before a call. */
  readonly latencies: Readonly<Record<string, { readonly call: Latencies; readonly wait: Latencies | null }>>;
}

export function analyse(rollouts: readonly TracedRollout[]): Analysis {
  const groups = [...Map.groupBy(rollouts, ({ prompt }) => prompt).values()];
  const rates = groups.map((own) => own.filter(({ judge }) => judge >= 1).length / own.length);
  const mean = (value: (rollout: TracedRollout) => number) =>
    rollouts.length === 0 ? 0 : rollouts.reduce((sum, rollout) => sum + value(rollout), 0) / rollouts.length;
  const count = (is: (rollout: TracedRollout) => boolean) => rollouts.filter(is).length;
  const isRightWithoutPage = ({ judge, ndcg }: TracedRollout) => judge >= 0.5 && ndcg === 0;
  return {
    prompts: groups.length,
    rollouts: rollouts.length,
    rewardMean: mean(({ reward }) => reward),
    judgeMean: mean(({ judge }) => judge),
    ndcgMean: mean(({ ndcg }) => ndcg),
    successRates: Object.fromEntries(RATES.map((name) => [name, rates.filter((rate) => rateName(rate) === name).length])) as Analysis['successRates'],
    rightFromSameDocument: count((rollout) => isRightWithoutPage(rollout) && sharesDocument(rollout)),
    rightUnsupported: count((rollout) => isRightWithoutPage(rollout) && !sharesDocument(rollout)),
    wrongWithGoldenPages: count(({ judge, ndcg }) => judge === 0 && ndcg >= 1),
    zeroSearch: count(({ pages, events }) => pages.length === 0 && !events.some(({ kind }) => kind === 'pages')),
    latencies: latenciesOf(rollouts),
  };
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
