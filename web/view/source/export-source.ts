/**
 * Reads from the answers inside the page that `vf-view --export` wrote: those of the server by `VIEW_REQUESTS`, images as data URLs by theirs. It makes no request. A set has one
 * answer with all of its rows, a comparison one with all rows, differences first; sorting, filtering and paging happen here.
 */
import { VIEW_REQUESTS } from '../../../src/viewing/request-key.ts';
import type {
  Comparison,
  ComparisonQuery,
  HeldOutDetail,
  MetricLines,
  RolloutDetail,
  RolloutPage,
  RolloutPlace,
  RolloutQuery,
  RolloutTokens,
  TokensPlace,
  RunDetail,
  RunList,
  StepDetail,
  ViewSource,
} from '../../../src/viewing/view-wire.ts';
import { pageOf } from './page-of.ts';

export class ExportSource implements ViewSource {
  readonly live = false;
  readonly #answers: Readonly<Record<string, unknown>>;

  constructor(answers: Readonly<Record<string, unknown>>) {
    this.#answers = answers;
  }

  runs(): Promise<RunList> {
    return this.#answer(VIEW_REQUESTS.runs());
  }

  run(run: string): Promise<RunDetail> {
    return this.#answer(VIEW_REQUESTS.run(run));
  }

  async rollouts(query: RolloutQuery): Promise<RolloutPage> {
    const { run, set } = query;
    const all = await this.#answer<RolloutPage>(VIEW_REQUESTS.rollouts({ run, set }));
    return pageOf(all, query, ({ group, index }) => this.#answers[VIEW_REQUESTS.rollout({ run, set, group, index })] as RolloutDetail | undefined);
  }

  rollout(place: RolloutPlace): Promise<RolloutDetail> {
    return this.#answer(VIEW_REQUESTS.rollout(place));
  }

  tokens(place: TokensPlace): Promise<RolloutTokens> {
    return this.#answer(VIEW_REQUESTS.tokens(place));
  }

  metrics(run: string, after: number): Promise<MetricLines> {
    return this.#answer(VIEW_REQUESTS.metrics(run, after));
  }

  step(run: string, step: number): Promise<StepDetail> {
    return this.#answer(VIEW_REQUESTS.step(run, step));
  }

  heldOut(run: string, group: string): Promise<HeldOutDetail> {
    return this.#answer(VIEW_REQUESTS.heldOut(run, group));
  }

  async compare({ sets, sort = 'difference', from = 0, count = 100 }: ComparisonQuery): Promise<Comparison> {
    const all = await this.#answer<Comparison>(VIEW_REQUESTS.compare({ sets }));
    const rows = sort === 'order' ? all.rows.toSorted((a, b) => (a.group < b.group ? -1 : 1)) : all.rows;
    return { ...all, rows: rows.slice(from, from + count) };
  }

  image(run: string, sha256: string): string {
    const image = this.#answers[VIEW_REQUESTS.image(run, sha256)];
    return typeof image === 'string' ? image : '';
  }

  /** Async, so that a missing answer rejects as a request would. */
  async #answer<T>(key: string): Promise<T> {
    if (Object.hasOwn(this.#answers, key)) return this.#answers[key] as T;
    throw new Error('This file does not hold that. Open the run with vf-view, or export it again with more.');
  }
}
