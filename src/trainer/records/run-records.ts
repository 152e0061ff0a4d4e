/** The files that a run writes: metrics, events, rollouts, checkpoints. Open for the life of the process, across sessions. */
import type { PolicyRef } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { thrownText, TrainingError } from '../../core/errors.ts';
import { TraceFile, type TracePlace } from '../../files/trace-file.ts';
import { mapStrings } from '../../transport/redact.ts';
import { Checkpoints } from './checkpoints.ts';
import { EventLog, readSkippedSteps } from './event-log.ts';
import { MetricsJournal } from './metrics-journal.ts';
import { RolloutFiles } from './rollout-files.ts';
import { SourceFiles } from './source-files.ts';
import { isSkipKind, type SkipReason } from '../skip-reason.ts';
import type { TrajectoryBatch } from '../trajectory-source.ts';
import type { FailedRollout, MetricsRow, RecordedMetricsRow, TrainingEvent, TrainingObserver } from '../training-observer.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { TrainingOutcome, TrainingRun } from '../training-session.ts';

export class RunRecords implements AsyncDisposable {
  readonly rollouts: RolloutFiles;
  readonly evaluations: RolloutFiles;
  readonly checkpoints: Checkpoints;
  readonly #run: TrainingRun;
  readonly #events: EventLog;
  /** Null unless an environment traces. */
  readonly #trace: TraceFile | null;
  readonly #observer: TrainingObserver;
  #journal: MetricsJournal | null = null;
  #sourceFiles: SourceFiles | null = null;
  #step = 0;
  #hasBegun = false;
  #isLossKnown = false;
  /** The step or evaluation of rollouts that failed since the last row, by step and id. */
  readonly #failed = new Map<string, number>();
  #served = { version: 0, model: '' };
  #replicas: Pick<PolicyVersions['replicas'], 'isResting'> | null = null;

  private constructor(
    run: TrainingRun,
    { checkpoints, events, trace }: { readonly checkpoints: Checkpoints; readonly events: EventLog; readonly trace: TraceFile | null },
  ) {
    const { directory, redact, observer, models } = run;
    const writing = { redact, asks: models !== undefined, trace };
    this.#run = run;
    this.#events = events;
    this.#trace = trace;
    this.#observer = observer;
    this.checkpoints = checkpoints;
    this.rollouts = new RolloutFiles(directory.paths.rollouts, writing);
    this.evaluations = new RolloutFiles(directory.paths.evaluations, { ...writing, isEvaluation: true });
  }

  static async open(run: TrainingRun): Promise<RunRecords> {
    const { paths } = run.directory;
    const checkpoints = await Checkpoints.open(paths.checkpoints, { onDamage: (message) => records.report({ kind: 'alarm', message }) });
    const events = await EventLog.open(paths.events, { redact: run.redact });
    const records: RunRecords = new RunRecords(run, { checkpoints, events, trace: await openTrace(run) });
    return records;
  }

  /** Drops the metrics and the source's rows of later steps, which will be measured again. */
  async resumeAt(step: number): Promise<void> {
    await this.#journal?.close();
    this.#journal = null;
    await this.#sourceFiles?.[Symbol.asyncDispose]();
    this.#sourceFiles = null;
    const onNotFinite = (message: string) => this.report({ kind: 'alarm', message });
    const rows: RecordedMetricsRow[] = [];
    const onRow = this.#observer.onStart === undefined ? {} : { onRow: (row: RecordedMetricsRow) => void rows.push(row) };
    this.#journal = await MetricsJournal.open(this.#run.directory.paths.metrics, { through: step, onNotFinite, ...onRow });
    this.#sourceFiles = await SourceFiles.open(this.#run.directory.paths.source, { through: step, redact: this.#run.redact });
    this.#step = step;
    this.#observer.onStart?.({ step, rows });
  }

  /** The journal's rows, those of earlier processes included; those of steps without their values. */
  get rows(): readonly MetricsRow[] {
    return this.#journal?.rows ?? [];
  }

  /** Steps through this one that metrics.jsonl has lost, although a checkpoint counts them; none of a step that is yet to be taken. */
  missingRows(through: number): readonly number[] {
    const known = new Set(this.rows.filter(({ kind }) => kind === 'step').map(({ step }) => step));
    return Array.from({ length: through > this.#step ? 0 : through }, (_, i) => i + 1).filter((step) => !known.has(step));
  }

  /** Says what was lost with such rows. */
  noticeMissing(through: number): void {
    const missing = this.missingRows(through);
    if (missing.length > 0) this.report({ kind: 'alarm', message: missingText(missing) });
  }

  /** Why a step of any process changed nothing; null if it did, or if its kind is unknown. */
  async skipReason(step: number): Promise<SkipReason | null> {
    const [found] = await readSkippedSteps(this.#run.directory.paths.events, new Set([step]));
    return found !== undefined && isSkipKind(found.kind) ? { kind: found.kind, text: found.text } : null;
  }

  row(row: MetricsRow): void {
    if (this.#journal === null) throw new TrainingError('The metrics journal is not open; call resumeAt before writing a row');
    this.#step = row.step;
    // The row counts those of its step or evaluation; a source may be a step ahead.
    for (const [key, step] of this.#failed) if (step <= row.step) this.#failed.delete(key);
    const recorded = this.#journal.append(this.#withCost(this.#withLosses(row)));
    if (row.kind === 'step') this.#observer.onStep?.(recorded);
    else if (row.kind === 'evaluation') this.#observer.onEvaluation?.(recorded);
    else this.#observer.onValidation?.(recorded);
  }

  #withCost(row: MetricsRow): MetricsRow {
    const usd = this.#run.recordService?.() ?? null;
    return usd === null ? row : { ...row, values: { ...row.values, service_cost: usd } };
  }

  /** Counts the events that the trace lacks, and reports them once. */
  #withLosses(row: MetricsRow): MetricsRow {
    const { lost = 0, notice = null } = this.#trace ?? {};
    if (notice === null || row.kind !== 'step') return row;
    if (!this.#isLossKnown) this.report({ kind: 'alarm', message: notice });
    this.#isLossKnown = true;
    return { ...row, values: { ...row.values, trace_rollouts_lost: lost } };
  }

  /** Writes the notes and rows that the source gave for people to read. Its step must be recorded first, because a resume repeats everything after a checkpoint. */
  async sourceTexts({ notes = [], records = {} }: Pick<TrajectoryBatch, 'notes' | 'records'>): Promise<void> {
    await this.#sourceFiles?.append(this.#step, records);
    for (const message of notes) this.report({ kind: 'note', message });
  }

  onFailedRollout({ step, rolloutId }: Pick<FailedRollout, 'step' | 'rolloutId'>): void {
    this.#failed.set(JSON.stringify([step, rolloutId]), step);
  }

  report(event: Omit<TrainingEvent, 'step'>): void {
    const whole = { ...event, step: this.#step, message: this.#run.redact(event.message) };
    this.#events.append(whole);
    this.#observer.onEvent?.(whole);
  }

  /** Called before a process does any work: saves the settings that a resume changed, and reports them. Later calls do nothing. */
  async begin(): Promise<void> {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const { directory, changes = [] } = this.#run;
    await directory.begin();
    if (changes.length === 0) return;
    const message = `Changed ${changes.map(({ text }) => text).join('; ')}`;
    this.report({ kind: 'settings_changed', message, changes: changes.map(({ key, before, after }) => ({ key, before, after })) });
  }

  served({ version, model }: PolicyRef, replicas: Pick<PolicyVersions['replicas'], 'isResting'>): void {
    this.#served = { version, model };
    this.#replicas = replicas;
  }

  async outcome(reason: TrainingOutcome['reason'], cause: Error | null): Promise<TrainingOutcome> {
    const { directory, config } = this.#run;
    const failed = reason === 'interrupted' ? this.#failed.size : 0;
    const ended = cause instanceof TrainingError ? cause : { failedRollouts: failed, resumeFlags: [], correct: null, newRun: null };
    const { failedRollouts, resumeFlags, correct, newRun } = ended;
    const checkpoint = await this.checkpoints.latest().catch((error: unknown) => {
      // A damaged checkpoint must not hide why the run ended.
      this.report({ kind: 'alarm', message: thrownText(error) });
      return null;
    });
    return {
      reason,
      message: cause?.message ?? null,
      step: this.#step,
      ...this.#served,
      directory: directory.path,
      adapter: checkpoint === null || checkpoint.version === 0 ? null : checkpoint.adapterDirectory,
      checkpoint: checkpoint?.directory ?? null,
      plots: [],
      events: this.#events.count,
      failedRollouts,
      resumable: reason !== 'finished' || this.#step < totalSteps(config),
      resumeFlags,
      correct,
      newRun,
      resting: this.#run.servers.replicas.filter((replica) => this.#replicas?.isResting(replica) === true),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#journal?.close();
      await this.#sourceFiles?.[Symbol.asyncDispose]();
      await this.#trace?.close();
    } finally {
      await this.#events.close();
    }
  }
}

function missingText(steps: readonly number[]): string {
  const which = steps.length === 1 ? `step ${steps[0]}` : `${steps.length} steps from ${steps[0]} to ${steps.at(-1)}`;
  return (
    `metrics.jsonl lacks the rows of ${which}, which this run has trained, and evaluations of that time may be missing too. Curves, summary and model cards go without them, ` +
    'and the best adapter is compared with what is left. The weights are not affected. If you have a copy of the file, stop the run, put it back and continue with -R'
  );
}

/** Null unless an environment of the run traces. A rollout that is missing from the file of its step is played again, so its lines are dropped. */
async function openTrace({ environment, evaluation, directory, redact }: TrainingRun): Promise<TraceFile | null> {
  if (environment.traces !== true && evaluation.traces !== true) return null;
  const { paths, run } = directory;
  const [rollouts, evaluations] = [new RolloutFiles(paths.rollouts), new RolloutFiles(paths.evaluations)];
  const recorded = new Map<string, ReadonlySet<string> | null>();
  for (const [store, isEvaluation] of [
    [rollouts, false],
    [evaluations, true],
  ] as const)
    for (const { step, phase } of await store.phases()) recorded.set(keyOf({ step, phase, isEvaluation }), await store.recordedIds(step, phase));
  return TraceFile.open(paths.trace, {
    runId: run.run_id,
    about: { environment: environment.id, attempt: run.attempts.at(-1)?.id ?? null, package_version: run.attempts.at(-1)?.package_version ?? null },
    redact: (data) => mapStrings(data, redact),
    // The files of old steps are deleted; the rollouts that they held count.
    isKept: (place, rolloutId) => recorded.get(keyOf(place))?.has(rolloutId) ?? true,
  });
}

function keyOf({ step, phase, isEvaluation = false }: TracePlace): string {
  return JSON.stringify([step, phase, isEvaluation]);
}
