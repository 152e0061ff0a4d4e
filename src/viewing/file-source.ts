/** Answers all requests of the page from the files below a folder. Reads only, takes no locks, and follows runs that are being written. */
import { settingLabels } from '../core/setting-differences.ts';
import { STEP_METRICS, EVALUATION_METRICS, VALIDATION_METRICS } from '../trainer/records/metrics.ts';
import { compareSets } from './comparison.ts';
import { evaluationDetail } from './evaluation-detail.ts';
import { findRuns } from './find-runs.ts';
import { OpenFiles, OpenRun } from './open-run.ts';
import { readRunImage, type RunImage } from './run-image.ts';
import { rolloutDetail, rolloutTokens } from './rollout-detail.ts';
import { rolloutPage } from './rollout-page.ts';
import { VIEW_REQUESTS } from './request-key.ts';
import { RunTokenizers, type RunTokenizersOptions } from './run-tokenizers.ts';
import { TextSearches } from './text-searches.ts';
import { heldOutDetail, stepDetail, trainingDetail } from './training-detail.ts';
import { ViewRequestError } from './view-problem.ts';
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
  RunDetail,
  RunList,
  StepDetail,
  TokensPlace,
  ViewSource,
} from './view-wire.ts';

export interface FileSourceOptions {
  /** The folder to search for runs. */
  readonly root: string;
  /** The page's name for it. */
  readonly label: string;
  readonly tokenizers: RunTokenizersOptions;
}

/** The time for which a list of runs serves requests for single runs, in milliseconds. */
const FRESH_MS = 2000;
const LINES_AT_ONCE = 8;
/** Of a run's changed files that are read for its page. */
const PAGE_BYTES = 64 * 2 ** 20;

export class FileSource implements ViewSource {
  readonly live = true;
  readonly #options: FileSourceOptions;
  readonly #parts: { readonly files: OpenFiles; readonly tokenizers: RunTokenizers };
  readonly #searches = new TextSearches();
  #runs = new Map<string, OpenRun>();
  #unread: readonly string[] = [];
  /** The settings that tell each run from the others, of the latest list; null before the first. */
  #differs: ReadonlyMap<string, string> | null = null;
  #finding: Promise<void> | null = null;
  #foundAt = -Infinity;

  constructor(options: FileSourceOptions) {
    this.#options = options;
    this.#parts = { files: new OpenFiles(), tokenizers: new RunTokenizers(options.tokenizers) };
  }

  async runs(): Promise<RunList> {
    await this.#find();
    const runs = [...this.#runs.values()];
    const lines: RunList['runs'][number][] = [];
    for (let i = 0; i < runs.length; i += LINES_AT_ONCE)
      lines.push(...(await Promise.all(runs.slice(i, i + LINES_AT_ONCE).map((run) => run.line()))));
    await this.#tellApart(lines);
    const newestFirst = lines.toSorted((a, b) => ((a.started_at ?? '') < (b.started_at ?? '') ? 1 : -1));
    return { root: this.#options.label, runs: newestFirst, unread: this.#unread };
  }

  /** Gives runs of the same kind, environment and name the settings in which they differ. */
  async #tellApart(lines: RunList['runs'][number][]): Promise<void> {
    for (const alike of Map.groupBy(lines.keys(), (i) => JSON.stringify([lines[i]!.kind, lines[i]!.environment, lines[i]!.name])).values()) {
      if (alike.length < 2) continue;
      const settings = alike.flatMap((i) => this.#runs.get(lines[i]!.id) ?? []).map((run) => run.settingsOfResult());
      const labels = settingLabels(await Promise.all(settings));
      for (const [j, i] of alike.entries()) lines[i] = { ...lines[i]!, differs: labels[j] ?? '' };
    }
    this.#differs = new Map(lines.map(({ id, differs }) => [id, differs]));
  }

  /** Reads every file of every run, so that the answers say what is wrong with each. */
  async examine(signal: AbortSignal): Promise<void> {
    await this.#find();
    for (const run of this.#runs.values()) await run.damage.problems({ mostBytes: Infinity, signal });
  }

  async run(id: string): Promise<RunDetail> {
    const run = await this.#open(id);
    if (this.#differs?.has(run.found.id) !== true) await this.runs();
    const differs = this.#differs?.get(run.found.id) ?? '';
    const detail = await (run.found.kind === 'evaluation' ? evaluationDetail(run) : trainingDetail(run));
    const problems = await run.damage.problems({ mostBytes: PAGE_BYTES });
    return { ...detail, run: { ...detail.run, differs, problems } };
  }

  /** @param signal ends a search for text */
  async rollouts(query: RolloutQuery, signal?: AbortSignal): Promise<RolloutPage> {
    return await rolloutPage(await this.#open(query.run), query, { searches: this.#searches, signal });
  }

  async rollout(place: RolloutPlace): Promise<RolloutDetail> {
    return await rolloutDetail(await this.#open(place.run), place);
  }

  async tokens(place: TokensPlace): Promise<RolloutTokens> {
    return await rolloutTokens(await this.#open(place.run), place);
  }

  async metrics(id: string, after: number): Promise<MetricLines> {
    const run = await this.#training(id);
    const [{ lines, next, older }, { state }] = await Promise.all([run.metrics.after(after), run.line()]);
    const isFirst = after === 0;
    return { lines, next, older, state, settings: isFirst ? await run.settingsOfResult() : null, meanings: isFirst ? MEANINGS : null };
  }

  async step(id: string, step: number): Promise<StepDetail> {
    return await stepDetail(await this.#training(id), step);
  }

  async heldOut(id: string, group: string): Promise<HeldOutDetail> {
    return await heldOutDetail(await this.#training(id), group);
  }

  async compare(query: ComparisonQuery): Promise<Comparison> {
    if (query.sets.length < 2 || query.sets.length > 8)
      throw new ViewRequestError(400, `A comparison needs two to eight sets of rollouts, and the request names ${query.sets.length}. Choose others.`);
    const sets = [];
    for (const { run, set } of query.sets) sets.push({ run: await this.#open(run), set });
    return await compareSets(sets, query);
  }

  image(run: string, sha256: string): string {
    return VIEW_REQUESTS.image(run, sha256);
  }

  /** The bytes behind `image`. Throws ViewRequestError for an image that the run does not have. */
  async imageBytes(run: string, sha256: string): Promise<RunImage> {
    return await readRunImage((await this.#open(run)).found.directory, sha256);
  }

  async #training(id: string): Promise<OpenRun> {
    const run = await this.#open(id);
    if (run.found.kind === 'training') return run;
    throw new ViewRequestError(400, `${run.found.id} is an evaluation, which has no steps. Choose a training run.`);
  }

  /** Runs are found by search, never opened by a path from the request. Throws ViewRequestError for a missing run. */
  async #open(id: string): Promise<OpenRun> {
    if (!this.#runs.has(id) && performance.now() - this.#foundAt > FRESH_MS) await this.#find();
    const run = this.#runs.get(id);
    if (run === undefined)
      throw new ViewRequestError(404, `${JSON.stringify(id.slice(0, 200))} is not a run below ${this.#options.label}. Choose one from the list.`);
    return run;
  }

  #find(): Promise<void> {
    this.#finding ??= this.#search().finally(() => (this.#finding = null));
    return this.#finding;
  }

  async #search(): Promise<void> {
    const { runs: found, unread } = await findRuns(this.#options.root);
    // A run that still exists keeps its cached data.
    const same = (one: (typeof found)[number]) => {
      const known = this.#runs.get(one.id);
      return known?.found.kind === one.kind ? known : new OpenRun(one, this.#parts);
    };
    this.#runs = new Map(found.map((one) => [one.id, same(one)]));
    this.#unread = unread;
    this.#foundAt = performance.now();
  }
}

const MEANINGS: Readonly<Record<string, string>> = Object.fromEntries(
  [...VALIDATION_METRICS, ...EVALUATION_METRICS, ...STEP_METRICS].map(({ name, definition }) => [name, definition.replaceAll('`', '')]),
);
