/**
 * Scores the rollouts of a run again, without playing any: their texts, states and calls of models by role are on file. The caller chooses the
 * environment with its rubric, and the models of its roles.
 */
import { createHash } from 'node:crypto';
import type { Row } from '../core/dataset.ts';
import { CancelledError, ConfigError, RewardError } from '../core/errors.ts';
import type { Score } from '../core/rubric.ts';
import { lockRun } from '../files/run-lock.ts';
import { replayedModels } from '../models/replayed-models.ts';
import { type Rollout, rolloutError, withScore } from '../rollouts/rollout.ts';
import { Scoring } from '../rollouts/scoring.ts';
import type { WireMetadata, WireResult } from '../schemas/results.ts';
import { type Redaction, redactionOf } from './redaction.ts';
import { isRecordedRow } from './row-content.ts';
import { replaceScores } from './replace-scores.ts';
import { rescoredLines } from './rescored-lines.ts';
import { type IndexedRollout, indexRun, type RunIndex, RunReader, type RunRecord } from './run-index.ts';
import { removeTemporaryFiles } from './run-files.ts';
import { isBehind, withFigures } from './run-metadata.ts';
import { readMetadata } from './run-records.ts';
import { type ScoreOptions, type ScoreResult, scoringDigest } from './score-options.ts';
import { changedSince, ScoreJournal } from './score-journal.ts';
import { savedRollout } from './saved-rollout.ts';

/**
 * Scores rollouts and then replaces the files of the run, each by a rename. Throws ConfigError for a run of other rows, a run in use, or a run with an unfinished
 * scoring of other options; CancelledError if the signal aborts, after which the same call goes on.
 */
export async function scoreRun<R extends Row>(options: ScoreOptions<R>): Promise<ScoreResult> {
  const metadata = await readMetadata(options.directory);
  await using _ = options.isLocked === true ? null : await lockRun(options.directory);
  return await new RunScorer(options, metadata).run();
}

type Failure = ScoreResult['failures'][number];

class RunScorer<R extends Row> {
  readonly #options: ScoreOptions<R>;
  readonly #metadata: WireMetadata;
  readonly #rows: ReadonlyMap<string, R>;
  readonly #failures: Failure[] = [];
  #unsaved = 0;
  #done = 0;

  constructor(options: ScoreOptions<R>, metadata: WireMetadata) {
    this.#options = options;
    this.#metadata = metadata;
    this.#rows = new Map([...options.environment.eval].map((row) => [String(row.exampleId), row]));
  }

  async run(): Promise<ScoreResult> {
    const { directory, copyOf = directory } = this.#options;
    await removeTemporaryFiles(directory);
    const redaction = redactionOf(this.#options.secrets);
    const index = await indexRun(directory, (result) => assertSameRow(copyOf, result, this.#rows.get(result.group_id), redaction), copyOf);
    if (index.rollouts.size === 0)
      throw new ConfigError(`${copyOf} has no recorded rollout, so there is nothing to score. Continue the run with vf-eval -R.`);
    const groups = this.#groups(index);
    const journal = await ScoreJournal.open(directory, scoringDigest(this.#options));
    try {
      if (journal.closedAt === null) await this.#scoreGroups(groups, index, journal);
      else await this.#assertReplaceable(index, journal);
      if (this.#isComplete) journal.close();
    } finally {
      await journal.release();
      // Nothing was found, so nothing has to go on.
      if (journal.closedAt === null && journal.found.size === 0) await journal.remove();
    }
    const isReplaced = this.#isComplete;
    if (isReplaced) await this.#replace(index, journal);
    const wanted = groups.flat().length;
    const unplayed = [...index.rollouts.values()].filter(({ rollout, isUnscored }) => rollout.error !== null && !isUnscored).length;
    return {
      repeated: index.repeated,
      before: this.#before(index),
      scored: scoredIn(journal),
      changed: changedIn(journal),
      failures: this.#failures,
      unplayed,
      unsaved: this.#unsaved,
      left: index.rollouts.size - unplayed - wanted,
      isReplaced,
    };
  }

  /** A run that was killed has more rollouts than its figures count. */
  #before(index: RunIndex): WireMetadata {
    const rollouts = [...index.rollouts.values()].map(({ rollout }) => rollout);
    const { displays } = this.#options.environment.rubric;
    return isBehind(this.#metadata, rollouts) ? withFigures(this.#metadata, rollouts, displays ?? new Map()) : this.#metadata;
  }

  /** Throws ConfigError if a rollout of a closed journal was played again since: its line is neither the one that was scored nor the new one. */
  async #assertReplaceable(index: RunIndex, { found }: ScoreJournal): Promise<void> {
    const { directory } = this.#options;
    await using reader = await RunReader.open(directory, index);
    for (const [id, { before, result }] of found) {
      if (!index.rollouts.has(id)) throw changedSince(directory);
      const { lines } = await reader.read(id);
      if (lines.result !== result && digestOf(lines.result) !== before) throw changedSince(directory);
    }
  }

  /** A rollout that has a score loses it only if the caller wants failures on file. */
  get #isComplete(): boolean {
    return this.#options.recordsFailures === true || !this.#failures.some(({ hadScore }) => hadScore);
  }

  /** Scores from before stay, or the metrics of which they are sums. */
  get #isPartial(): boolean {
    return this.#options.failedOnly === true || this.#options.fromScore !== undefined;
  }

  get #isTogether(): boolean {
    const { environment, fromScore } = this.#options;
    return environment.rubric.hasGroupRewards && fromScore === undefined && this.#metadata.config['independent_scoring'] !== true;
  }

  /** Rollouts that are scored together: a group with group rewards, else each alone. */
  #groups(index: RunIndex): IndexedRollout[][] {
    const { failedOnly = false, fromScore } = this.#options;
    const played = [...index.rollouts.values()].filter(
      ({ rollout, isUnscored }) => rollout.error === null || (isUnscored && fromScore === undefined),
    );
    if (!this.#isTogether) return played.filter(({ isUnscored }) => isUnscored || !failedOnly).map((one) => [one]);
    const groups = [...Map.groupBy(played, ({ rollout }) => rollout.groupId).values()];
    return groups.filter((group) => !failedOnly || group.some(({ isUnscored }) => isUnscored));
  }

  async #scoreGroups(groups: readonly (readonly IndexedRollout[])[], index: RunIndex, journal: ScoreJournal): Promise<void> {
    const { maxScoring, scoringTimeoutMs, timeoutNames, signal, directory } = this.#options;
    const waiting = groups.filter((group) => group.some(({ rollout }) => !journal.found.has(rollout.rolloutId)));
    const total = groups.flat().length;
    this.#done = total - waiting.flat().length;
    const stop = new AbortController();
    await using reader = await RunReader.open(directory, index);
    const finished = new WeakSet<object>();
    const hook = this.#options.environment.finish;
    const environment = {
      rubric: this.#options.environment.rubric,
      ...(hook === undefined
        ? {}
        : {
            finish: async (context: Parameters<typeof hook>[0]) => (finished.has(context.state) ? {} : hook.call(this.#options.environment, context)),
          }),
    };
    const limits = { maxScoring, maxConcurrent: maxScoring, timeoutMs: scoringTimeoutMs, scoringTimeoutMs, ...(timeoutNames && { timeoutNames }) };
    await using scoring = new Scoring<R>(environment, { ...limits, signal, stop: stop.signal, scoringGraceMs: 0 });
    const queue = waiting.values();
    const work = async () => {
      for (const group of queue) {
        if (signal.aborted || stop.signal.aborted) return;
        await this.#scoreGroup(group, { reader, scoring, finished, journal });
        this.#done += group.length;
        this.#options.onProgress?.({ done: this.#done, total, failed: this.#failures.length });
      }
    };
    const workers = Array.from({ length: Math.max(1, Math.min(maxScoring, waiting.length)) }, () =>
      work().catch((error: unknown) => {
        // The others end before the files are closed.
        stop.abort(new CancelledError('The scoring has ended'));
        throw error;
      }),
    );
    for (const outcome of await Promise.allSettled(workers)) if (outcome.status === 'rejected') throw outcome.reason;
    if (signal.aborted) throw new CancelledError('The scoring was cancelled', { cause: signal.reason });
  }

  async #scoreGroup(group: readonly IndexedRollout[], parts: GroupParts<R>): Promise<void> {
    const { fromScore } = this.#options;
    const records: { readonly record: RunRecord; readonly isUnscored: boolean }[] = [];
    for (const { rollout, isUnscored } of group) {
      const record = await parts.reader.read(rollout.rolloutId);
      // Rewards may read how it ended, which was not saved.
      if (isUnscored && record.played === null) this.#unsaved += 1;
      else records.push({ record, isUnscored });
    }
    const scored =
      fromScore === undefined ? await this.#scoredByRubric(records, parts) : records.map(({ record }) => this.#scoredFrom(record, fromScore));
    for (const rollout of scored) {
      const { record, isUnscored } = records.find((one) => one.record.result.rollout_id === rollout.rolloutId)!;
      const { error } = rollout;
      if (error?.endsRun === true)
        throw new RewardError(`${error.message.replace(/\.$/, '')}. Fix this and run vf-score again: what was scored is kept.`);
      if (error !== null) {
        this.#failures.push({ rolloutId: rollout.rolloutId, type: error.type, message: error.message, hadScore: !isUnscored });
        if (this.#options.recordsFailures !== true) continue;
      }
      const redaction = redactionOf(this.#options.secrets);
      const names = this.#options.environment.rubric.names;
      const hookRan = fromScore === undefined && this.#hookRuns(record);
      const lines = rescoredLines(rollout, record, { metricNames: names, stateColumns: this.#metadata.state_columns, redaction, hookRan });
      parts.journal.add(rollout.rolloutId, { ...lines, before: digestOf(record.lines.result), ...(error === null ? {} : { failed: true }) });
    }
  }

  async #scoredByRubric(
    records: readonly { readonly record: RunRecord; readonly isUnscored: boolean }[],
    parts: GroupParts<R>,
  ): Promise<readonly Rollout<R>[]> {
    const { models, asksAgain = () => false } = this.#options;
    const members = records.map(({ record }) => {
      const { result, played, asked } = record;
      const rollout = savedRollout({ result, row: this.#rows.get(result.group_id)!, played, asked });
      const hookRuns = this.#hookRuns(record);
      if (!hookRuns) parts.finished.add(rollout.state);
      if (models === undefined) return { rollout, models: null };
      const before = played === null ? [] : asked.slice(0, hookRuns ? played.asked : (played.asked_finished ?? played.asked));
      return { rollout, models: replayedModels(models.forRollout(rollout.rolloutId), { records: asked.slice(before.length), before, asksAgain }) };
    });
    const scored = await parts.scoring.score(await Promise.all(members.map((member) => parts.scoring.finish(member))));
    return scored.map((rollout) => this.#withUnsaved(rollout, records.find(({ record }) => record.result.rollout_id === rollout.rolloutId)!.record));
  }

  /** The additions of the hook are in the saved state, unless it failed or a model that it may call is another one now. */
  #hookRuns({ played }: RunRecord): boolean {
    const { players, asksAgain = () => false, environment } = this.#options;
    if (played === null || environment.finish === undefined) return false;
    return played.asked_finished === null || Object.keys(players).some(asksAgain);
  }

  /** A metric that fails for want of a state keeps its earlier value, unless another rubric or another environment's rubric scores. */
  #withUnsaved(rollout: Rollout<R>, { played, result }: RunRecord): Rollout<R> {
    const { settings } = this.#options;
    if (played !== null || rollout.metricErrors === undefined || 'rubric' in settings || 'environment' in settings) return rollout;
    const kept = Object.keys(rollout.metricErrors).filter((name) => typeof result.metrics[name] === 'number');
    const { metricErrors, ...rest } = rollout;
    const failed = Object.fromEntries(Object.entries(metricErrors).filter(([name]) => !kept.includes(name)));
    const metrics = { ...rollout.metrics, ...Object.fromEntries(kept.map((name) => [name, result.metrics[name]!])) };
    return { ...rest, metrics, ...(Object.keys(failed).length === 0 ? {} : { metricErrors: failed }) };
  }

  #scoredFrom(record: RunRecord, fromScore: (score: Score) => Score | RewardError): Rollout<R> {
    const { result, played, asked } = record;
    const rollout = savedRollout({ result, row: this.#rows.get(result.group_id)!, played, asked });
    const metrics = Object.fromEntries(Object.entries(result.metrics).filter((entry): entry is [string, number] => entry[1] !== null));
    const { metric_errors: metricErrors } = result;
    const score = fromScore({ reward: result.reward!, metrics, ...(metricErrors === undefined ? {} : { metricErrors }) });
    const scored = withScore(rollout, score instanceof Error ? rolloutError(score, 'scoring') : score, result.timing.scoring.duration * 1000);
    return { ...scored, scoredWith: result.scored_with ?? 0 };
  }

  async #replace(index: RunIndex, journal: ScoreJournal): Promise<void> {
    const { directory, environment, settings, players, inputs, models, packageVersion, keepsJournal = false } = this.#options;
    const { scoring: _, roles: __, ...config } = this.#metadata.config;
    await replaceScores(directory, {
      index,
      found: journal.found,
      displays: environment.rubric.displays ?? new Map(),
      config: {
        ...config,
        ...(Object.keys(players).length === 0 ? {} : { roles: players }),
        ...(Object.keys(settings).length === 0 ? {} : { scoring: settings }),
      },
      scoring: {
        at: journal.closedAt!,
        package_version: packageVersion,
        scored: scoredIn(journal),
        changed: changedIn(journal),
        settings: { ...settings },
        inputs,
        ...(this.#isPartial ? { partial: true } : {}),
      },
      failures: models?.stats ?? new Map(),
    });
    if (!keepsJournal) await journal.remove();
  }
}

interface GroupParts<R extends Row> {
  readonly reader: RunReader;
  readonly scoring: Scoring<R>;
  /** States that the hook `finish` has added to. */
  readonly finished: WeakSet<object>;
  readonly journal: ScoreJournal;
}

function digestOf(line: string): string {
  return createHash('sha256').update(line).digest('hex');
}

function scoredIn({ found }: ScoreJournal): number {
  return [...found.values()].filter(({ failed }) => failed !== true).length;
}

function changedIn({ found }: ScoreJournal): number {
  return [...found.values()].filter(({ result }) => result !== undefined).length;
}

/** Throws ConfigError unless the environment still has the row. */
function assertSameRow(directory: string, result: WireResult, row: Row | undefined, redaction: Redaction): void {
  const id = result.example_id;
  if (row === undefined)
    throw new ConfigError(`${directory} has a row ${JSON.stringify(id)} that the environment does not have now. Score it with the data of the run.`);
  if (isRecordedRow(result, row, redaction)) return;
  throw new ConfigError(
    `Row ${JSON.stringify(id)} of the environment has another answer or info than in ${directory}. Score the run with the data that it played.`,
  );
}
