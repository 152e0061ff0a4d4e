/** State of a run, and what the loop does between two steps: publish, evaluate, checkpoint. Also resumes where an earlier process ended. */
import { PolicyError, ResultsError } from '../../core/errors.ts';
import { BatchStream, rowsOfStep } from '../sources/batch-stream.ts';
import { evaluationValues } from '../records/batch-values.ts';
import type { Checkpoint } from '../records/checkpoints.ts';
import { Guards } from './guards.ts';
import type { RunRecords } from '../records/run-records.ts';
import { isRecorded, type RolloutPlan, type SampledBatch, sampleRollouts, type SamplingPlan } from '../sources/sample-rollouts.ts';
import { type ProbeText, type Published, ServedPolicy } from '../publisher/served-policy.ts';
import { TokenBudget } from './token-budget.ts';
import type { TrainingRun, TrainingSession } from './training-session.ts';
import type { Trajectory } from '../sources/trajectory.ts';

/** Where a session starts. */
interface Start {
  /** Steps finished. */
  readonly step: number;
  readonly version: number;
  /** Token budget of a micro-batch. */
  readonly tokens: number;
  /** Consecutive steps without an update so far. */
  readonly skipped: number;
  /** Steps with complete rollouts: they need no policy. */
  readonly recorded: ReadonlySet<number>;
  /** Steps whose evaluation is recorded as the current configuration wants it. */
  readonly recordedEvaluations: ReadonlySet<number>;
}

export class RunState implements AsyncDisposable {
  readonly budget: TokenBudget;
  readonly batches: BatchStream;
  readonly guards: Guards;
  readonly #run: TrainingRun;
  readonly #records: RunRecords;
  readonly #session: TrainingSession;
  readonly #served: ServedPolicy;
  /** Steps with complete rollouts when this session started: they need no policy. */
  readonly #recorded: ReadonlySet<number>;
  readonly #recordedEvaluations: ReadonlySet<number>;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #step: number;
  #version: number;
  #checkpointSeconds = 0;

  private constructor(run: TrainingRun, records: RunRecords, session: TrainingSession, start: Start, signal: AbortSignal) {
    const { config, directory, servers } = run;
    const report = records.report.bind(records);
    this.#run = run;
    this.#records = records;
    this.#session = session;
    this.#signal = AbortSignal.any([signal, this.#stop.signal]);
    this.#step = start.step;
    this.#version = start.version;
    this.#recorded = start.recorded;
    this.#recordedEvaluations = start.recordedEvaluations;
    this.guards = new Guards(config.guards, start.skipped, report);
    this.budget = new TokenBudget(Math.min(start.tokens, session.backend.capabilities.maxTokens), (tokens) =>
      report({ kind: 'token_budget_halved', message: `The backend ran out of memory; micro-batches now have at most ${tokens} tokens` }),
    );
    this.#served = new ServedPolicy({
      ...session,
      servers,
      adapterDirectory: (version) => `${directory.paths.adapters}/${session.name}-v${String(version).padStart(6, '0')}`,
      tolerance: config.publish.probeTolerance,
      maxStaleness: config.rollouts.maxStaleness,
      report,
    });
    this.batches = new BatchStream({
      sample: (step) => this.#sample(step),
      isAhead: config.rollouts.maxStaleness > 0,
      lastStep: config.steps,
    });
  }

  /** Loads the last checkpoint, if any, and publishes its policy if something must be sampled from it. */
  static async resume(run: TrainingRun, records: RunRecords, session: TrainingSession, signal: AbortSignal): Promise<RunState> {
    const { config } = run;
    const checkpoint = await records.checkpoints.latest();
    const step = checkpoint?.step ?? 0;
    await records.resumeAt(step);
    if (checkpoint !== null) await session.backend.loadState(checkpoint.stateDirectory);
    await session.publisher.clear(signal);
    const start: Start = {
      step,
      version: checkpoint?.version ?? 0,
      tokens: tokenBudgetAtStart(checkpoint, config),
      skipped: checkpoint?.counters['skipped_steps'] ?? 0,
      recorded: new Set(await records.rollouts.completeSteps()),
      recordedEvaluations: await recordedEvaluations(run, records, step),
    };
    const state = new RunState(run, records, session, start, signal);
    records.served(session.versions.current());
    records.report(
      step === 0
        ? { kind: 'started', message: `${session.backend.capabilities.description}; policy ${session.client.name}` }
        : { kind: 'resumed', message: `Resumed from the checkpoint of step ${step}, version ${state.version}` },
    );
    const isBase = state.version === 0 && config.model.initialAdapter === null;
    if (!isBase && state.#isPolicyNeeded) await state.#publishAtStart();
    return state;
  }

  /** Steps finished. */
  get step(): number {
    return this.#step;
  }

  /** Version of the backend's weights: the last step that changed them. */
  get version(): number {
    return this.#version;
  }

  get servedVersion(): number {
    return this.#served.version;
  }

  /** Seconds spent on checkpoints since the last call. */
  takeCheckpointSeconds(): number {
    const seconds = this.#checkpointSeconds;
    this.#checkpointSeconds = 0;
    return seconds;
  }

  finishStep(isUpdated: boolean): void {
    this.#step++;
    if (isUpdated) this.#version = this.#step;
  }

  /** Publishes the backend's version; null if the servers already have it or nothing will be sampled from it. */
  async publish(batch: readonly Trajectory[]): Promise<Published | null> {
    if (this.#served.version === this.#version || !this.#isPolicyNeeded) return null;
    // The shortest sequence suffices to tell two sets of weights apart.
    const [probed] = batch.filter(({ targets }) => targets.length > 0).toSorted((a, b) => a.ids.length - b.ids.length);
    const published = await this.#served.publish(this.#version, probed ?? (await this.#promptProbe()), this.#signal);
    this.#records.served(this.#session.versions.current());
    return published;
  }

  get isEvaluationDue(): boolean {
    const { every } = this.#run.config.evaluation;
    if (every === 0 || this.#records.rows.some(({ kind, step }) => kind === 'evaluation' && step === this.#step)) return false;
    return this.#step % every === 0 || this.#step === this.#run.config.steps;
  }

  async evaluate(): Promise<void> {
    const { config, evaluation: environment } = this.#run;
    const { observer } = this.#run;
    observer.onPhase?.('evaluation', this.#step);
    const startedAtMs = performance.now();
    const temperature = config.evaluation.temperature ?? config.rollouts.temperature;
    const { trajectories } = await this.#play({
      ...evaluationPlan(this.#run, this.#records, this.#step),
      environment,
      temperature,
      isEvaluation: true,
    });
    const seconds = (performance.now() - startedAtMs) / 1000;
    // Taken from the rollouts: if they were recorded earlier, another version may serve now.
    const version = trajectories.find(({ reward }) => reward !== null)?.policy.version ?? null;
    const values = { ...evaluationValues(trajectories), policy_version: version, evaluation_seconds: seconds };
    this.#records.row({ kind: 'evaluation', step: this.#step, values });
  }

  get isCheckpointDue(): boolean {
    const { config } = this.#run;
    return this.#step % config.checkpoint.every === 0 || this.#step === config.steps;
  }

  /** If a checkpoint cannot be written or an old one not deleted, this raises an alarm and the run continues: the last checkpoint is still valid. */
  async checkpoint(): Promise<void> {
    const { config, observer } = this.#run;
    const { checkpoints, rollouts } = this.#records;
    const { backend, versions } = this.#session;
    observer.onPhase?.('checkpoint', this.#step);
    const startedAtMs = performance.now();
    const counters = { token_budget: this.budget.tokens, max_tokens: config.backend.maxTokens, skipped_steps: this.guards.skipped };
    try {
      await checkpoints.save({ step: this.#step, version: this.#version, model: versions.current().model, counters }, async (directory) => {
        await backend.saveState(`${directory}/state`);
        await backend.saveAdapter(`${directory}/adapter`);
      });
      const oldest = await checkpoints.prune(config.checkpoint.keep);
      if (oldest !== null && !config.checkpoint.keepRollouts) await rollouts.discardBefore(oldest + 1);
    } catch (error) {
      if (!(error instanceof ResultsError)) throw error;
      this.#records.report({ kind: 'alarm', message: error.message });
    }
    this.#checkpointSeconds += (performance.now() - startedAtMs) / 1000;
  }

  /** Stops sampling ahead. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.batches.settled();
  }

  /** Whether this step's weights will be sampled from: for an unrecorded batch, for an evaluation, or by users after the run. */
  get #isPolicyNeeded(): boolean {
    const { config } = this.#run;
    if (this.#step >= config.steps) return true;
    if (this.isEvaluationDue && !this.#recordedEvaluations.has(this.#step)) return true;
    const next = Array.from({ length: 1 + config.rollouts.maxStaleness }, (_, i) => this.#step + 1 + i);
    return next.some((step) => step <= config.steps && !this.#recorded.has(step));
  }

  /** Waits once for a server that is down: whatever killed the last process may have killed it too. */
  async #publishAtStart(): Promise<void> {
    const publish = async () => {
      const published = await this.#served.publish(this.#version, await this.#promptProbe(), this.#signal);
      if (!published.ok) throw published.reason;
    };
    try {
      await publish();
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      await this.#served.recover(this.#signal);
      await publish();
    }
    this.#records.served(this.#session.versions.current());
  }

  #sample(step: number): Promise<SampledBatch> {
    const { config, environment } = this.#run;
    const { examplesPerStep, rolloutsPerExample, temperature } = config.rollouts;
    const rows = rowsOfStep(environment.train, examplesPerStep, config.seed, step);
    return this.#play({ step, environment, rows, rolloutsPerExample, temperature, store: this.#records.rollouts });
  }

  #play(plan: SamplingPlan): Promise<SampledBatch> {
    const { config, observer, models } = this.#run;
    return sampleRollouts(plan, {
      client: this.#session.client,
      ...(models === undefined ? {} : { models }),
      config,
      observer,
      recover: (signal) => this.#served.recover(signal),
      report: this.#records.report.bind(this.#records),
      signal: this.#signal,
    });
  }

  /** Probes with the first prompt if there is no rollout. */
  async #promptProbe(): Promise<ProbeText> {
    await using lease = await this.#session.client.lease(this.#signal);
    if (lease.kind !== 'tokens') throw new ResultsError('The policy does not accept token ids; use a vLLM server or the embedded engine');
    const ids = await lease.render(this.#run.environment.train.at(0).prompt);
    return { ids, targets: Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1) };
  }
}

function evaluationPlan({ config, evaluation: { eval: rows } }: TrainingRun, { evaluations: store }: RunRecords, step: number): RolloutPlan {
  const { examples, rolloutsPerExample } = config.evaluation;
  return { step, rows: [...rows.take(examples === -1 ? rows.length : examples)], rolloutsPerExample, store };
}

/** Steps from `from` on whose evaluation is recorded as the current configuration wants it: its size may change between processes. */
async function recordedEvaluations(run: TrainingRun, records: RunRecords, from: number): Promise<ReadonlySet<number>> {
  const recorded = new Set<number>();
  for (const step of await records.evaluations.completeSteps()) {
    if (step >= from && (await isRecorded(evaluationPlan(run, records, step)))) recorded.add(step);
  }
  return recorded;
}

/** The checkpoint's budget, halvings included, unless backend.max_tokens changed since. */
function tokenBudgetAtStart(checkpoint: Checkpoint | null, { backend: { maxTokens } }: TrainingRun['config']): number {
  const { token_budget: left = maxTokens, max_tokens: asked = maxTokens } = checkpoint?.counters ?? {};
  return asked === maxTokens ? left : maxTokens;
}
