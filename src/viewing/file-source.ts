/** Answers what the page asks from the files below a folder. Changes nothing there and takes no locks, so runs can be written meanwhile. */
import { resolve } from 'node:path';
import { LRUCache } from 'lru-cache';
import { readMetadata } from '../evaluate/run-records.ts';
import { trainingPaths } from '../trainer/records/training-directory.ts';
import { compareSets } from './compare-sets.ts';
import { evaluationFacts, evaluationLine, evaluationSummary } from './evaluation-view.ts';
import { type FoundRun, findRuns } from './find-runs.ts';
import { GrowingFile } from './growing-file.ts';
import { heldOutDetail, heldOutLines } from './held-out.ts';
import { findSets, type FoundSet } from './rollout-sets.ts';
import { RunTokenizers } from './run-tokenizer.ts';
import { SetReader } from './set-reader.ts';
import { stepDetail } from './step-view.ts';
import { MEANINGS, modelOf, parseRow, trainingEvents, trainingFacts, trainingLine, trainingTable } from './training-view.ts';
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
  RunLine,
  RunList,
  StepDetail,
} from './view-wire.ts';
import { ViewRequestError } from './view-problem.ts';

export interface FileSourceOptions {
  /** The folder with the runs, or one run. */
  readonly root: string;
  /** How the page names it. */
  readonly label: string;
  /** Directory of a tokenizer for every run. @default the run's own model, where it is on this machine */
  readonly tokenizer?: string | null;
}

/** An index of 100,000 rollouts takes some 20 MB. */
const KEPT_SETS = 400;
const KEPT_ROLLOUTS = 250_000;

export class FileSource {
  readonly #root: string;
  readonly #label: string;
  readonly #tokenizers: RunTokenizers;
  #runs: ReadonlyMap<string, FoundRun> = new Map();
  readonly #sets = new LRUCache<string, SetReader>({ max: KEPT_SETS });
  readonly #metrics = new LRUCache<string, MetricsLog>({ max: KEPT_SETS });

  constructor({ root, label, tokenizer = null }: FileSourceOptions) {
    this.#root = resolve(root);
    this.#label = label;
    this.#tokenizers = new RunTokenizers(tokenizer);
  }

  async runs(): Promise<RunList> {
    const found = await findRuns(this.#root);
    this.#runs = new Map(found.map((run) => [run.id, run]));
    const runs: RunLine[] = [];
    for (const run of found) runs.push(await lineOf(run));
    return { root: this.#label, runs: runs.toSorted((a, b) => ((a.started_at ?? '') < (b.started_at ?? '') ? 1 : -1)) };
  }

  async run(id: string): Promise<RunDetail> {
    const found = await this.#find(id);
    const { directory, kind } = found;
    const [run, sets] = await Promise.all([lineOf(found), findSets(directory, kind)]);
    if (run.problem !== null) return { kind: 'evaluation', run, facts: [], sets: [], summary: null };
    const shown = sets.map(({ id: set, title, kind: holds, step }) => ({ id: set, title, kind: holds, step }));
    if (kind === 'evaluation') {
      const metadata = await readMetadata(directory);
      const { index } = await this.#reader(found, sets[0]!);
      await index.refresh();
      const summary = evaluationSummary(directory, metadata, index);
      return {
        kind,
        run: { ...run, reward: (summary?.['reward'] ?? run.reward) as RunLine['reward'] },
        facts: evaluationFacts(metadata),
        sets: shown,
        summary,
      };
    }
    const evaluations = await this.#evaluations(found, sets);
    const [table, events, held_out] = [await trainingTable(directory), await trainingEvents(directory), await heldOutLines(evaluations)];
    return { kind, run, facts: trainingFacts(table), sets: shown, held_out, events };
  }

  async rollouts({ run, set, ...query }: RolloutQuery, signal?: AbortSignal): Promise<RolloutPage> {
    return (await this.#open(run, set)).page(query, signal);
  }

  async rollout({ run, set, group, index }: RolloutPlace): Promise<RolloutDetail> {
    const reader = await this.#open(run, set);
    const detail = await reader.rollout(group, index);
    if (reader.set.kind !== 'step') return { ...detail, advantage: null };
    const step = await this.step(run, reader.set.step!);
    const members = step.groups.find((each) => each.set === set && each.group === group)?.rollouts;
    return { ...detail, advantage: members?.find((each) => each.index === index)?.advantage ?? null };
  }

  async tokens({ run, set, group, index }: RolloutPlace): Promise<RolloutTokens> {
    return (await this.#open(run, set)).tokens(group, index);
  }

  async metrics(run: string, after: number): Promise<MetricLines> {
    const found = await this.#find(run);
    if (found.kind !== 'training') throw new ViewRequestError(400, 'Only training runs have metrics over steps. Open its rollouts.');
    let log = this.#metrics.get(found.directory);
    if (log === undefined) this.#metrics.set(found.directory, (log = new MetricsLog(trainingPaths(found.directory).metrics)));
    const lines = await log.lines();
    const from = after > lines.length ? 0 : after;
    return { lines: lines.slice(from), next: lines.length, state: (await lineOf(found)).state, meanings: from === 0 ? MEANINGS : null };
  }

  async step(run: string, step: number): Promise<StepDetail> {
    const found = await this.#find(run);
    const sets = (await findSets(found.directory, found.kind)).filter(({ kind }) => kind === 'step');
    const readers = [];
    for (const set of sets.filter((each) => each.step === step)) readers.push(await this.#reader(found, set));
    if (readers.length === 0) throw new ViewRequestError(404, `The rollouts of step ${step} are not on file. Choose another step.`);
    return stepDetail(step, { readers, steps: sets.map((set) => set.step!), table: await trainingTable(found.directory) });
  }

  async heldOut(run: string, group: string): Promise<HeldOutDetail> {
    const found = await this.#find(run);
    return heldOutDetail(group, await this.#evaluations(found, await findSets(found.directory, found.kind)));
  }

  async compare({ sets, ...query }: ComparisonQuery): Promise<Comparison> {
    if (sets.length < 2 || sets.length > 8) throw new ViewRequestError(400, 'A comparison takes two to eight sets of rollouts. Choose others.');
    const readers = [];
    for (const { run, set } of sets) readers.push({ run, reader: await this.#open(run, set) });
    return compareSets(readers, query);
  }

  /** The folder of a run. */
  async directory(run: string): Promise<string> {
    return (await this.#find(run)).directory;
  }

  async #find(id: string): Promise<FoundRun> {
    let run = this.#runs.get(id);
    if (run === undefined) {
      this.#runs = new Map((await findRuns(this.#root)).map((each) => [each.id, each]));
      run = this.#runs.get(id);
    }
    if (run === undefined) throw new ViewRequestError(404, `No run ${JSON.stringify(id)} is below ${this.#label}. Go back to the list of runs.`);
    return run;
  }

  async #open(run: string, set: string): Promise<SetReader> {
    const found = await this.#find(run);
    const wanted = (await findSets(found.directory, found.kind)).find(({ id }) => id === set);
    if (wanted === undefined) throw new ViewRequestError(404, `${run} has no set ${JSON.stringify(set)}. Go back to the run.`);
    return this.#reader(found, wanted);
  }

  async #reader({ directory, kind }: FoundRun, set: FoundSet): Promise<SetReader> {
    let reader = this.#sets.get(set.path);
    if (reader === undefined) {
      const model = async () => (kind === 'training' ? modelOf(await trainingTable(directory)) : (await readMetadata(directory)).model);
      reader = new SetReader(set, async () => this.#tokenizers.open(await model()));
      this.#sets.set(set.path, reader);
      this.#forgetLarge(reader);
    }
    return reader;
  }

  /** Keeps the sets that were read last, as long as they are not too large together. */
  #forgetLarge(kept: SetReader): void {
    let rollouts = 0;
    for (const [path, reader] of this.#sets.entries()) {
      rollouts += reader.index.size;
      if (rollouts > KEPT_ROLLOUTS && reader !== kept) this.#sets.delete(path);
    }
  }

  async #evaluations(found: FoundRun, sets: readonly FoundSet[]): Promise<SetReader[]> {
    const readers = [];
    for (const set of sets.filter(({ kind }) => kind === 'evaluation')) {
      const reader = await this.#reader(found, set);
      await reader.index.refresh();
      readers.push(reader);
    }
    return readers;
  }
}

async function lineOf({ id, kind, directory }: FoundRun): Promise<RunLine> {
  try {
    return kind === 'evaluation' ? await evaluationLine(id, directory) : await trainingLine(id, directory);
  } catch (error) {
    const unknown = {
      environment: '',
      model: '',
      started_at: null,
      updated_at: null,
      state: 'stopped',
      done: 0,
      planned: null,
      reward: null,
      curve: [],
    } as const;
    return { id, kind, ...unknown, problem: (error as Error).message };
  }
}

/** The rows of metrics.jsonl, which grows. */
class MetricsLog {
  readonly #file: GrowingFile;
  #lines: MetricLines['lines'][number][] = [];

  constructor(path: string) {
    this.#file = new GrowingFile(path);
  }

  async lines(): Promise<readonly MetricLines['lines'][number][]> {
    await this.#file.readOn({
      reset: () => (this.#lines = []),
      line: (piece, start, end) => {
        const row = parseRow(piece.toString('utf8', start, end));
        if (row !== null) this.#lines.push(row);
      },
    });
    return this.#lines;
  }
}
