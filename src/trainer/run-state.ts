/** Where a run stands, and what the loop asks of it between two steps: publish, evaluate, checkpoint, and begin again where an earlier process ended. */
import { PolicyError, ResultsError } from '../core/errors.ts';
import { BatchStream, rowsOfStep } from './batch-stream.ts';
import { evaluationValues } from './batch-values.ts';
import type { Checkpoint } from './checkpoints.ts';
import { Guards } from './guards.ts';
import type { RunRecords } from './run-records.ts';
import { isRecorded, type RolloutPlan, type SampledBatch, sampleRollouts, type SamplingPlan } from './sample-rollouts.ts';
import { type ProbeText, type Published, ServedPolicy } from './served-policy.ts';
import { TokenBudget } from './token-budget.ts';
import type { TrainingRun, TrainingSession } from './training-session.ts';
import type { Trajectory } from './trajectory.ts';

/** Where a session begins. */
interface Start {
  /** Steps finished. */
  readonly step: number;
  readonly version: number;
  /** Most of a batch. */
  readonly tokens: number;
  /** Steps without an update just before. */
  readonly skipped: number;
  /** Steps whose rollouts are complete: they need no policy. */
  readonly recorded: ReadonlySet<number>;
  /** Steps whose evaluation is on file as it would be made today. */
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
  /** Steps whose rollouts were complete when this session began: they need no policy. */
  readonly #recorded: ReadonlySet<number>;
  readonly #recordedEvaluations: ReadonlySet<number>;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #step: number;
  #version: number;
  #checkpointSeconds = 0;

  private constructor(run: TrainingRun, records: RunRecords, session: TrainingSession, start: Start, signal: AbortSignal) {
    const { config, directory, servers } = run;
    const tell = records.tell.bind(records);
    this.#run = run;
    this.#records = records;
    this.#session = session;
    this.#signal = AbortSignal.any([signal, this.#stop.signal]);
    this.#step = start.step;
    this.#version = start.version;
    this.#recorded = start.recorded;
    this.#recordedEvaluations = start.recordedEvaluations;
    this.guards = new Guards(config.guards, start.skipped, tell);
    this.budget = new TokenBudget(Math.min(start.tokens, session.backend.capabilities.maxTokens), (tokens) =>
      tell({ kind: 'token_budget_halved', message: `Memory ran out; batches now have at most ${tokens} tokens` }),
    );
    this.#served = new ServedPolicy({
      ...session,
      servers,
      adapterDirectory: (version) => `${directory.paths.adapters}/${session.name}-v${String(version).padStart(6, '0')}`,
      tolerance: config.publish.probeTolerance,
      maxStaleness: config.rollouts.maxStaleness,
      tell,
    });
    this.batches = new BatchStream({
      sample: (step) => this.#sample(step),
      isAhead: config.rollouts.maxStaleness > 0,
      lastStep: config.steps,
    });
  }

  /** Loads the last checkpoint, if there is one, and puts its policy on the servers if anything has to be sampled from it. */
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
    records.tell(
      step === 0
        ? { kind: 'started', message: `${session.backend.capabilities.description}; policy ${session.client.name}` }
        : { kind: 'resumed', message: `From the checkpoint of step ${step}, version ${state.version}` },
    );
    const isBase = state.version === 0 && config.model.initialAdapter === null;
    if (!isBase && state.#isPolicyNeeded) await state.#publishAtStart();
    return state;
  }

  /** Steps finished. */
  get step(): number {
    return this.#step;
  }

  /** Of the weights that the backend holds: the last step that changed them. */
  get version(): number {
    return this.#version;
  }

  get servedVersion(): number {
    return this.#served.version;
  }

  /** Seconds of the checkpoint since this was last asked. */
  takeCheckpointSeconds(): number {
    const seconds = this.#checkpointSeconds;
    this.#checkpointSeconds = 0;
    return seconds;
  }

  finishStep(isUpdated: boolean): void {
    this.#step++;
    if (isUpdated) this.#version = this.#step;
  }

  /** Puts the version that the backend holds on the servers; null where they have it, or where nothing will be sampled from it. */
  async publish(batch: readonly Trajectory[]): Promise<Published | null> {
    if (this.#served.version === this.#version || !this.#isPolicyNeeded) return null;
    // The shortest is enough to tell one set of weights from another.
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
    const { trajectories } = await this.#play({ ...evaluationPlan(this.#run, this.#records, this.#step), environment, temperature });
    const seconds = (performance.now() - startedAtMs) / 1000;
    // Of the rollouts themselves: what serves may be another version where they were on file.
    const version = trajectories.find(({ reward }) => reward !== null)?.version ?? null;
    const values = { ...evaluationValues(trajectories), policy_version: version, evaluation_seconds: seconds };
    this.#records.row({ kind: 'evaluation', step: this.#step, values });
  }

  get isCheckpointDue(): boolean {
    const { config } = this.#run;
    return this.#step % config.checkpoint.every === 0 || this.#step === config.steps;
  }

  /** A checkpoint that cannot be written is told, and the run goes on: the last one still holds. So is an old one that cannot be deleted. */
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
      this.#records.tell({ kind: 'alarm', message: error.message });
    }
    this.#checkpointSeconds += (performance.now() - startedAtMs) / 1000;
  }

  /** Ends what is being sampled ahead. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.batches.settled();
  }

  /** What the weights of this step are sampled for: a batch that is not on file yet, an evaluation, or whoever comes after the run. */
  get #isPolicyNeeded(): boolean {
    const { config } = this.#run;
    if (this.#step >= config.steps) return true;
    if (this.isEvaluationDue && !this.#recordedEvaluations.has(this.#step)) return true;
    const next = Array.from({ length: 1 + config.rollouts.maxStaleness }, (_, i) => this.#step + 1 + i);
    return next.some((step) => step <= config.steps && !this.#recorded.has(step));
  }

  /** A server that is down is waited for once: what killed the last process may have killed it too. */
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
      tell: this.#records.tell.bind(this.#records),
      signal: this.#signal,
    });
  }

  /** The first prompt, where no rollout is at hand. */
  async #promptProbe(): Promise<ProbeText> {
    await using lease = await this.#session.client.lease(this.#signal);
    if (lease.kind !== 'tokens') throw new ResultsError('Expected a policy that takes token ids');
    const ids = await lease.render(this.#run.environment.train.at(0).prompt);
    return { ids, targets: Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1) };
  }
}

function evaluationPlan({ config, evaluation: { eval: rows } }: TrainingRun, { evaluations: store }: RunRecords, step: number): RolloutPlan {
  const { examples, rolloutsPerExample } = config.evaluation;
  return { step, rows: [...rows.take(examples === -1 ? rows.length : examples)], rolloutsPerExample, store };
}

/** Steps from this one on whose evaluation is on file as it would be made today: how much is evaluated may change between processes. */
async function recordedEvaluations(run: TrainingRun, records: RunRecords, from: number): Promise<ReadonlySet<number>> {
  const recorded = new Set<number>();
  for (const step of await records.evaluations.completeSteps()) {
    if (step >= from && (await isRecorded(evaluationPlan(run, records, step)))) recorded.add(step);
  }
  return recorded;
}

/** As the checkpoint left it, after halvings; what the configuration asks for where that is another number than it was then. */
function tokenBudgetAtStart(checkpoint: Checkpoint | null, { backend: { maxTokens } }: TrainingRun['config']): number {
  const { token_budget: left = maxTokens, max_tokens: asked = maxTokens } = checkpoint?.counters ?? {};
  return asked === maxTokens ? left : maxTokens;
}
