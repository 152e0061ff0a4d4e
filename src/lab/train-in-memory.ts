/**
 * The training loop without files and servers, for a page: the same source, credit, update and seeds as `vf-train` with the embedded engine, so that the same settings
 * give the same adapter, bit for bit. It has no checkpoints, guards or resume, and takes no supervised steps.
 */
import { PolicyVersions } from '../clients/policy-versions.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import type { TokenEngine } from '../engine/engine-types.ts';
import type { AdapterTensors, EngineTrainer } from '../engine/training/trainer-types.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { groupCredit } from '../trainer/credit/group-credit.ts';
import { EngineGradients } from '../trainer/gradients/embedded/engine-gradients.ts';
import { PhaseClock } from '../trainer/loop/phase-clock.ts';
import { TokenBudget } from '../trainer/gradients/token-budget.ts';
import type { TrainingEvent, TrainingObserver } from '../trainer/training-observer.ts';
import { trainStep } from '../trainer/loop/train-step.ts';
import { demonstrationSources } from '../trainer/config/training-schedule.ts';
import { ONE_ROLE } from '../trainer/losses/loss-roles.ts';
import { lossTerms } from '../trainer/losses/loss-terms.ts';
import { batchValues, evaluationValues } from '../trainer/records/batch-values.ts';
import { RolloutsInMemory } from '../trainer/records/rollouts-in-memory.ts';
import { type SampledBatch, sampleRollouts, type SamplingPlan } from '../trainer/sources/sample-rollouts.ts';
import { SampledSource } from '../trainer/sources/sampled-source.ts';
import type { Trajectory } from '../trainer/trajectory.ts';
import { enginePolicy } from './engine-policy.ts';

export type Values = Readonly<Record<string, number | null>>;

export interface MemoryObserver extends Pick<TrainingObserver, 'onPhase' | 'onRollouts'> {
  onTrained(step: number, values: Values): void;
  onEvaluated(step: number, values: Values, trajectories: readonly Trajectory[]): void;
  onReport(event: Omit<TrainingEvent, 'step'>): void;
}

export interface MemoryTraining {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  /** Its `eval` holds the held-out rows. */
  readonly evaluation: Environment;
  readonly engine: TokenEngine;
  readonly observer: MemoryObserver;
  /** Ends the run after the current work. */
  readonly signal: AbortSignal;
}

/** An adapter in memory. */
export interface TrainedAdapter {
  readonly tensors: readonly AdapterTensors[];
  readonly rank: number;
  readonly alpha: number;
  /** Steps that changed it. */
  readonly version: number;
}

/** A run whose engine is open. Close the engine after it. */
export class MemoryRun {
  readonly #training: MemoryTraining;
  readonly #trainer: EngineTrainer;
  readonly #backend: EngineGradients;
  readonly #versions: PolicyVersions;
  readonly #play: (plan: Omit<SamplingPlan, 'store'>) => Promise<SampledBatch>;
  #step = 0;
  #version = 0;
  #isStopping = false;

  private constructor(training: MemoryTraining, trainer: EngineTrainer) {
    const { config, engine, observer, signal } = training;
    this.#training = training;
    this.#trainer = trainer;
    this.#backend = new EngineGradients({ engine, trainer, ownsEngine: false });
    this.#versions = new PolicyVersions({ version: 0, model: config.model.path });
    const client = enginePolicy(engine, this.#versions);
    const parts = {
      client,
      config,
      observer,
      recover: async () => false,
      report: (event: Omit<TrainingEvent, 'step'>) => observer.onReport(event),
      signal,
    };
    this.#play = (plan) => sampleRollouts({ ...plan, store: new RolloutsInMemory() }, parts);
  }

  /** Rejects with ConfigError for settings that need files or servers, and with the engine's errors. */
  static async open(training: MemoryTraining): Promise<MemoryRun> {
    const { config, engine, signal } = training;
    refuseOthers(config);
    const { lora, backend, seed } = config;
    const trainer = await engine.createTrainer({
      rank: lora.rank,
      alpha: lora.alpha,
      targets: lora.targets,
      seed,
      initial: null,
      checkpointing: backend.gradientCheckpointing === true,
      memoryBytes: null,
      signal,
    });
    return new MemoryRun(training, trainer);
  }

  /** Trains to the last step, with an evaluation before the first step, every `evaluation.every` steps and after the last. Rejects with CancelledError once the signal aborts. */
  async train(): Promise<void> {
    const { config, environment, observer, signal } = this.#training;
    const losses = lossTerms(config, { algorithm: config.algorithm, responseTokens: environment.limits.responseTokens }, new Map(), ONE_ROLE);
    const budget = new TokenBudget(Math.min(config.backend.maxTokens, this.#backend.capabilities.maxTokens));
    const credit = groupCredit(config);
    const { rolloutsPerExample, temperature } = config.rollouts;
    const source = new SampledSource({
      config,
      environment,
      play: (plan) => this.#play({ environment, rolloutsPerExample, temperature, ...plan }),
      stepsBefore: 0,
      isRecorded: () => false,
    });
    await this.#evaluate();
    while (this.#step < config.steps && !this.#isStopping) {
      const step = this.#step + 1;
      const timer = new PhaseClock(step, observer);
      const version = this.#version;
      const { batch, work, update } = await trainStep(step, version, {
        config,
        losses,
        source,
        credit,
        backend: this.#backend,
        budget,
        timer,
        signal,
      });
      this.#step = step;
      if (update.applied > 0) await timer.measure('publish', () => this.#publish(step));
      budget.finishStep();
      const seconds = { step_seconds: timer.totalSeconds, rollouts_seconds: timer.seconds('rollouts') };
      observer.onTrained(step, { ...batchValues(batch, work, { version }), ...update.values, ...seconds });
      if (step % config.evaluation.every === 0 || step === config.steps || this.#isStopping) await this.#evaluate();
    }
  }

  /** Steps finished. */
  get step(): number {
    return this.#step;
  }

  /** Ends the run in order: after the current step and an evaluation of it. */
  stop(): void {
    this.#isStopping = true;
  }

  /** The adapter as it is now. */
  adapter(): TrainedAdapter {
    const { rank, alpha } = this.#trainer;
    return { tensors: this.#trainer.read().tensors, rank, alpha, version: this.#version };
  }

  /** The sampler gets a copy of the adapter. The previous copy is removed once no rollout uses it. */
  async #publish(version: number): Promise<void> {
    const { engine, config } = this.#training;
    const { model: before } = this.#versions.current();
    const { name } = await this.#trainer.serve(`version-${version}`);
    this.#version = version;
    this.#versions.advance({ version, model: name });
    if (before !== config.model.path) engine.unloadAdapter(before);
  }

  async #evaluate(): Promise<void> {
    const { config, evaluation: environment, observer } = this.#training;
    const { examples, rolloutsPerExample, temperature } = config.evaluation;
    const step = this.#step;
    observer.onPhase?.('evaluation', step);
    const rows = [...environment.eval.take(examples === -1 ? environment.eval.length : examples)];
    const plan = { step, environment, rows, rolloutsPerExample, temperature: temperature ?? config.rollouts.temperature, isEvaluation: true };
    const { trajectories } = await this.#play(plan);
    observer.onEvaluated(step, evaluationValues(trajectories), trajectories);
  }
}

function refuseOthers({ sft, algorithm, rollouts, model, evaluation }: TrainingConfig): void {
  const refused = [
    [demonstrationSources(sft).length > 0, 'sft'],
    [algorithm.advantage.use !== 'outcome', 'algorithm.advantage.use'],
    [algorithm.advantage.scope !== 'group', 'algorithm.advantage.scope'],
    [algorithm.teacher !== null, 'algorithm.teacher'],
    [rollouts.maxStaleness > 0, 'rollouts.max_staleness'],
    [model.initialAdapter !== null, 'model.initial_adapter'],
    [evaluation.every < 1, 'evaluation.every'],
  ] as const;
  const found = refused.find(([isOther]) => isOther);
  if (found !== undefined)
    throw new ConfigError(`Training without files does not support this ${found[1]}; use vf-train, or leave it at the default.`);
}
