/** An open run: appends rollouts as they end and keeps the metadata nearly current. */
import { basename } from 'node:path';
import type { Row } from '../core/dataset.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import { traceRecords } from '../rollouts/trace-records.ts';
import type { AskedTally } from '../models/asked-records.ts';
import { AskedFile } from './asked-file.ts';
import type { EvaluationOptions, EvaluationProgress } from './evaluation-options.ts';
import { LineAppender } from '../files/json-lines.ts';
import { TraceFile } from '../files/trace-file.ts';
import { playedLine } from './played-file.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import type { RunCost } from '../schemas/run-cost.ts';
import { runCost } from './run-cost.ts';
import { resultEncoder, tokensLine, type WireResult } from '../schemas/results.ts';
import type { Redaction } from './redaction.ts';
import { resultRecord, tokensRecords } from './result-record.ts';
import { transportSettings } from '../transport/transport-settings.ts';
import { runFiles, writeMetadata } from './run-files.ts';
import { type RunState, runMetadata } from './run-metadata.ts';
import { SharedTools } from './shared-tools.ts';
import { RunSpending } from './spending.ts';

/** The age of the figures that readers of a run in progress see; a killed run loses about this much of its wall clock. */
const METADATA_EVERY_MS = 2000;
/** Saving takes at most a twentieth of the time, however large the run. */
const METADATA_SHARE = 1 / 20;

export interface RunPlan<R extends Row> {
  readonly rows: readonly R[];
  /** Rollouts that a resume found on disk; empty for a new run. */
  readonly kept: readonly RecordedRollout[];
  /** Sessions before this one. */
  readonly sessions: RunState['sessions'];
  readonly scorings?: RunState['scorings'];
  readonly startedAt: string;
  /** Calls of models by role in the kept rollouts. @default none */
  readonly asked?: AskedTally;
  /** The spending of the run so far; this session adds its own. @default nothing */
  readonly spending?: RunSpending;
  /** The tools of the kept rollouts; this run adds its own. @default none */
  readonly tools?: SharedTools;
}

interface Files {
  readonly results: LineAppender;
  readonly tokens: LineAppender | null;
  readonly played: LineAppender;
  /** Null if no models are asked by role. */
  readonly asked: AskedFile | null;
  /** Null unless the environment traces. */
  readonly trace: TraceFile | null;
}

export class RunWriter<R extends Row> {
  readonly #options: EvaluationOptions<R>;
  readonly #redaction: Redaction;
  readonly #plan: RunPlan<R>;
  readonly #files: Files;
  readonly #headlines: ReadonlyMap<string, { sum: number; count: number }>;
  readonly #places: ReadonlyMap<string, number>;
  readonly #rollouts: RecordedRollout[];
  readonly #tools: SharedTools;
  readonly #spending: RunSpending;
  readonly #resultLine: (result: WireResult) => string;
  readonly #sessionStart = { date: new Date().toISOString(), ms: performance.now() };
  readonly #waits = transportSettings().waits;
  #endMs: number | null = null;
  #nextSaveMs = 0;
  #saving: Promise<void> | null = null;
  #failure: unknown = null;
  #recorded = 0;
  #errored = 0;
  #rewardSum = 0;
  /** Rollouts in flight, for `progress`. */
  active = 0;
  /** True if the ceiling of the cost ended the run. */
  limitReached = false;

  private constructor(options: EvaluationOptions<R>, plan: RunPlan<R>, redaction: Redaction, files: Files) {
    this.#options = options;
    this.#plan = plan;
    this.#redaction = redaction;
    this.#files = files;
    this.#resultLine = resultEncoder(options.environment.rubric.names);
    this.#places = new Map(plan.rows.map((row, i) => [String(row.exampleId), i]));
    const headlines = [...(options.environment.rubric.displays ?? [])].filter(([, { isHeadline }]) => isHeadline === true);
    this.#headlines = new Map(headlines.map(([name]) => [name, { sum: 0, count: 0 }]));
    this.#rollouts = [...plan.kept];
    this.#tools = plan.tools ?? new SharedTools();
    this.#spending = plan.spending ?? new RunSpending();
    for (const rollout of plan.kept) this.#addFinished(rollout);
  }

  /** Opens the files for appending. The run can be resumed once `saveMetadata` was called. */
  static async open<R extends Row>(options: EvaluationOptions<R>, plan: RunPlan<R>, redaction: Redaction): Promise<RunWriter<R>> {
    const files = runFiles(options.outputDir);
    const results = await LineAppender.open(files.results);
    const tokens = options.client.capabilities.kind === 'tokens' ? await LineAppender.open(files.tokens) : null;
    const played = await LineAppender.open(files.played);
    const asked =
      options.models === undefined ? null : await AskedFile.open(options.outputDir, { redaction, ...(plan.asked && { tally: plan.asked }) });
    const trace = options.environment.traces === true ? await openTrace(options, plan, redaction) : null;
    return new RunWriter(options, plan, redaction, { results, tokens, played, asked, trace });
  }

  /** Describes the events that the trace lacks; null if it is complete. */
  get traceNotice(): string | null {
    return this.#files.trace?.notice ?? null;
  }

  get progress(): EvaluationProgress {
    const finished = this.#rollouts.length - this.#errored;
    return {
      done: this.#rollouts.length,
      total: this.#plan.rows.length * this.#options.rolloutsPerExample,
      errored: this.#errored,
      rewardMean: finished === 0 ? null : this.#rewardSum / finished,
      headlines: [...this.#headlines].map(([name, { sum, count }]) => ({ name, mean: count === 0 ? null : sum / count })),
      active: this.active,
    };
  }

  /** The state of the run, with its rollouts in the order of the plan. */
  get state(): RunState {
    const { date, ms } = this.#sessionStart;
    const { run } = this.#options;
    const session = {
      started_at: date,
      seconds: ((this.#endMs ?? performance.now()) - ms) / 1000,
      ...(this.#waits.totalMs > 0 && { waited_seconds: this.#waits.totalMs / 1000 }),
      kept: this.#plan.kept.length,
      recorded: this.#recorded,
      package_version: run.packageVersion,
      ...(run.inputs === undefined ? {} : { inputs: { ...run.inputs } }),
      node_version: process.versions.node,
      base_url: run.baseUrl,
    };
    const place = (r: RecordedRollout) => this.#places.get(r.groupId)!;
    return {
      rollouts: this.#rollouts.toSorted((a, b) => place(a) - place(b) || a.index - b.index),
      numExamples: this.#plan.rows.length,
      planned: this.progress.total,
      startedAt: this.#plan.startedAt,
      sessions: [...this.#plan.sessions, session],
      scorings: this.#plan.scorings,
      tools: this.#tools.value,
      spending: this.#spending,
      limitReached: this.limitReached,
      roles: this.#files.asked?.tally.stats(this.#options.models?.stats) ?? {},
    };
  }

  /** The cost of the run so far; null if the caller names no prices. */
  get cost(): RunCost | null {
    const { cost } = this.#options;
    return cost === undefined ? null : runCost(this.#spending, cost, this.limitReached);
  }

  /** The rollout is on file when this returns. Throws ResultsError when a file cannot be written. */
  record(rollout: Rollout<R>): RecordedRollout {
    if (this.#failure !== null) throw this.#failure;
    const options = { ...this.#options, metricNames: this.#options.environment.rubric.names, redaction: this.#redaction };
    const result = resultRecord(rollout, options);
    // The result last: a recorded result then always has its tokens, calls and trace, and those without a result are ignored.
    const tokens = tokensRecords(rollout);
    if (this.#files.tokens && tokens.length > 0) this.#files.tokens.append(tokens.map(tokensLine));
    const played = playedLine(rollout, this.#redaction);
    if (played !== null) this.#files.played.append([JSON.stringify(played)]);
    this.#files.asked?.record([rollout]);
    this.#spending.all.addAsked(rollout.asked);
    this.#files.trace?.add({ step: null }, traceRecords(rollout));
    this.#files.results.append([this.#resultLine(result)]);
    this.#tools.add(result);
    const recorded = recordedRollout(result);
    this.#rollouts.push(recorded);
    this.#spending.addRollout(recorded);
    this.#recorded += 1;
    if (recorded.error !== null) this.#errored += 1;
    else this.#addFinished(recorded);
    if (this.#saving === null && performance.now() > this.#nextSaveMs) this.#saveInBackground();
    return recorded;
  }

  #addFinished({ reward, metrics }: RecordedRollout): void {
    this.#rewardSum += reward!;
    for (const [name, headline] of this.#headlines) {
      const value = metrics[name];
      // A metric that failed has no value, which is not a value of 0.
      if (value === undefined) continue;
      headline.sum += value;
      headline.count += 1;
    }
  }

  async saveMetadata(): Promise<void> {
    await this.#saving;
    await this.#save();
  }

  async #save(): Promise<void> {
    const startedMs = performance.now();
    await writeMetadata(this.#options.outputDir, runMetadata(this.#options, this.state, this.#redaction));
    const now = performance.now();
    this.#nextSaveMs = now + Math.max(METADATA_EVERY_MS, (now - startedMs) / METADATA_SHARE);
  }

  #saveInBackground(): void {
    this.#saving = this.#save()
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#saving = null;
      });
  }

  /** Ends the session. Everything recorded is on disk once this resolves. */
  async close(): Promise<void> {
    this.#endMs ??= performance.now();
    // A file is closed even if another cannot be.
    const { results, tokens, played, asked, trace } = this.#files;
    const closed = await Promise.allSettled([tokens?.close(), played.close(), asked?.close(), trace?.close(), results.close()]);
    for (const file of closed) if (file.status === 'rejected') throw file.reason;
  }
}

function openTrace<R extends Row>(
  { outputDir, run, environment }: EvaluationOptions<R>,
  { kept }: RunPlan<R>,
  redaction: Redaction,
): Promise<TraceFile> {
  const ids = new Set(kept.map(({ rolloutId }) => rolloutId));
  return TraceFile.open(runFiles(outputDir).trace, {
    runId: basename(outputDir),
    about: { environment: environment.id, model: run.model, package_version: run.packageVersion },
    redact: (data) => redaction.values(data),
    isKept: (_, rolloutId) => ids.has(rolloutId),
    recorded: ids,
  });
}
