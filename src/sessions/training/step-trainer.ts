/**
 * A training whose caller decides what each step does: it samples, computes advantages and updates by itself, with the parts of `vf-train`. It keeps no records and has no
 * guards, evaluations or demonstrations. The same rows, settings and seed give the same weights as a run of `vf-train`.
 */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readJson } from '../../core/read-json.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { checkOptions, type OptionKinds } from '../../core/check-options.ts';
import type { Row } from '../../core/dataset.ts';
import { ConfigError, ResultsError } from '../../core/errors.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { temperatureOfStep } from '../../trainer/config/training-schedule.ts';
import type { Advantage, Credit } from '../../trainer/credit.ts';
import { advantageProblem } from '../../trainer/credit/checked-credit.ts';
import { creditRollout } from '../../trainer/credit/credit-batch.ts';
import { groupAdvantages } from '../../trainer/credit/group-advantages.ts';
import { openCredit } from '../../trainer/credit/registry.ts';
import { logProbPass } from '../../trainer/gradients/log-prob-pass.ts';
import { TokenBudget } from '../../trainer/gradients/token-budget.ts';
import { PhaseClock } from '../../trainer/loop/phase-clock.ts';
import { probeTexts } from '../../trainer/loop/serve-policy.ts';
import { trainStep } from '../../trainer/loop/train-step.ts';
import { klEstimate } from '../../trainer/losses/kl.ts';
import type { ServedPolicy } from '../../trainer/publisher/served-policy.ts';
import { batchValues } from '../../trainer/records/batch-values.ts';
import { RolloutsInMemory } from '../../trainer/records/rollouts-in-memory.ts';
import { sampleRollouts } from '../../trainer/sources/sample-rollouts.ts';
import { batchProblem } from '../../trainer/sources/batch-problem.ts';
import { PlayedRollouts } from '../../trainer/sources/played-rollouts.ts';
import type { TrainingRun, TrainingSession } from '../../trainer/training-session.ts';
import type { GenerateOptions, SteppedPolicy, UpdatedPolicy } from '../../trainer/stepped-policy.ts';
import { isFinished, type Trajectory } from '../../trainer/trajectory.ts';

export interface StepTrainerParts {
  readonly run: TrainingRun;
  readonly session: TrainingSession;
  readonly policy: ServedPolicy;
  readonly onNotice: (line: string) => void;
  readonly signal: AbortSignal;
  /** Runs an operation, with the settings of the caller's requests. */
  readonly within: <T>(operation: () => Promise<T>) => Promise<T>;
}

const STATE = 'trainer.json';

export class StepTrainer {
  readonly #parts: StepTrainerParts;
  readonly #credit: Credit;
  readonly #budget: TokenBudget;
  readonly #played: PlayedRollouts;
  #step = 0;
  /** Grows with each step that changes the weights, and with each loaded checkpoint. */
  #version = 0;
  /** Calls of `generate` since the last step: each has seeds of its own. */
  #calls = 0;
  /** The last operation that was called. They share weights and sampler, so each waits for the one before it. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: StepTrainerParts) {
    const { run, session } = parts;
    this.#parts = parts;
    this.#credit = openCredit(run.config, run.ownCredit ?? null);
    this.#played = new PlayedRollouts(session.backend.adapter.vocabularySize);
    this.#budget = new TokenBudget(Math.min(run.config.backend.maxTokens, session.backend.capabilities.maxTokens));
  }

  /** Steps done, those of a loaded checkpoint included. */
  get step(): number {
    return this.#step;
  }

  get config(): TrainingConfig {
    return this.#parts.run.config;
  }

  async generate(rows: readonly Row[], options: GenerateOptions = {}): Promise<readonly Trajectory[]> {
    checkGenerated('generate', rows, options);
    return this.#next(() => this.#generate(rows, options));
  }

  async #generate(rows: readonly Row[], { rolloutsPerRow, maxTokens }: GenerateOptions): Promise<readonly Trajectory[]> {
    const { run, session, policy, onNotice, signal } = this.#parts;
    const { environment, models, gateway, observer } = run;
    const { rollouts, seed } = this.config;
    const step = this.#step + 1;
    const plan = {
      step,
      ...(this.#calls === 0 ? {} : { phase: `call ${this.#calls + 1}` }),
      environment,
      rows,
      rolloutsPerExample: rolloutsPerRow ?? rollouts.rolloutsPerExample,
      temperature: temperatureOfStep(this.config, step),
      store: new RolloutsInMemory(),
    };
    this.#calls++;
    const { trajectories } = await sampleRollouts(plan, {
      client: session.client,
      ...(models === undefined ? {} : { models }),
      ...(gateway === undefined ? {} : { gateway }),
      config: { rollouts: { ...rollouts, maxTokens: maxTokens ?? rollouts.maxTokens }, seed },
      observer,
      recover: policy.recovery(),
      report: ({ message }) => onNotice(message),
      signal,
    });
    this.#played.add(plan, trajectories);
    return trajectories;
  }

  computeAdvantages(rewards: readonly number[]): Float64Array {
    return groupAdvantages(rewards, { ...this.config.algorithm.advantage, singleton: 'zero' }).advantages;
  }

  klDivergence(oldLogProbs: ArrayLike<number>, newLogProbs: ArrayLike<number>): number {
    const { length } = newLogProbs;
    if (length === 0 || length !== oldLogProbs.length)
      throw new ConfigError(`klDivergence needs two lists of as many log-probs, at least one, got ${oldLogProbs.length} and ${length}.`);
    for (const [name, logProbs] of Object.entries({ oldLogProbs, newLogProbs })) {
      const at = Array.from(logProbs).findIndex((logProb) => !Number.isFinite(logProb));
      if (at !== -1)
        throw new ConfigError(`klDivergence needs finite log-probs, but ${name}[${at}] is ${logProbs[at]}. Leave that token out of both.`);
    }
    const { estimator } = this.config.algorithm.kl;
    return Array.from(newLogProbs).reduce((sum, logProb, t) => sum + klEstimate(estimator, logProb - oldLogProbs[t]!), 0) / length;
  }

  async updatePolicy(trajectories: readonly Trajectory[], advantages?: ArrayLike<Advantage>): Promise<UpdatedPolicy> {
    const problem = batchProblem({ trajectories }, 'generate') ?? copied(trajectories) ?? this.#played.unsampled(trajectories);
    if (problem !== null) throw new ConfigError(`updatePolicy cannot train on these trajectories: ${problem}.`);
    if (advantages !== undefined && this.config.algorithm.teacher?.withReward === false)
      throw new ConfigError('updatePolicy takes no advantages with algorithm.teacher, unless its with_reward = true adds them.');
    const credit = advantages === undefined ? this.#credit : givenCredit(trajectories, advantages);
    return this.#next(() => this.#update(trajectories, credit));
  }

  async #update(trajectories: readonly Trajectory[], credit: Credit): Promise<UpdatedPolicy> {
    const { run, session, signal } = this.#parts;
    const { config, losses, observer } = run;
    if (trajectories.length === 0) return updatedPolicy(config, {}, 'no rollouts were given, so no step was taken');
    const step = this.#step + 1;
    const version = this.#version;
    const { work, update } = await trainStep(step, version, {
      config,
      losses,
      source: { take: async () => ({ trajectories }) },
      credit,
      ...(run.tokenKinds === undefined ? {} : { kinds: run.tokenKinds }),
      ...(run.teacher === undefined ? {} : { teacher: run.teacher }),
      budget: this.#budget,
      timer: new PhaseClock(step, observer),
      backend: session.backend,
      signal,
    });
    this.#step = step;
    this.#calls = 0;
    this.#budget.finishStep();
    if (update.applied > 0) await this.#serve(step > version ? step : version + 1, trajectories);
    const metrics = { ...batchValues({ trajectories }, work, { version }), ...update.values };
    return updatedPolicy(config, metrics, update.reason?.text ?? null);
  }

  async trainStep(rows: readonly Row[], options: GenerateOptions = {}): Promise<SteppedPolicy> {
    checkGenerated('trainStep', rows, options);
    return this.#next(async () => {
      const trajectories = await this.#generate(rows, options);
      const updated = await this.#update(trajectories, this.#credit);
      return { ...updated, avgTokens: updated.metrics['tokens_per_rollout'] ?? null, searchTrajectories: searchedShare(trajectories), trajectories };
    });
  }

  async recomputeLogProbs(trajectories: readonly Trajectory[]): Promise<readonly Float64Array[]> {
    const { session, signal } = this.#parts;
    return this.#next(() => {
      const temperature = temperatureOfStep(this.config, this.#step + 1);
      return logProbPass(trajectories, 'on', { backend: session.backend, budget: this.#budget, temperature, signal });
    });
  }

  saveCheckpoint(directory: string): Promise<void> {
    return this.#next(() => this.#save(directory));
  }

  async #save(directory: string): Promise<void> {
    const { backend } = this.#parts.session;
    if (existsSync(join(directory, 'adapter')) || existsSync(join(directory, 'state')))
      throw new ConfigError(`${directory} holds a checkpoint. Save into another folder.`);
    await mkdir(directory, { recursive: true });
    await backend.saveAdapter(join(directory, 'adapter'));
    await backend.saveState(join(directory, 'state'));
    await mkdir(this.#creditFolder(directory), { recursive: true });
    await this.#credit.saveState?.(this.#creditFolder(directory));
    // Written last: it says that the rest is whole.
    await writeFile(join(directory, STATE), JSON.stringify({ step: this.#step }));
  }

  loadCheckpoint(directory: string): Promise<void> {
    return this.#next(() => this.#load(directory));
  }

  async #load(directory: string): Promise<void> {
    const { step } = fieldsOf(await readState(join(directory, STATE)));
    if (!Number.isSafeInteger(step) || (step as number) < 0)
      throw new ResultsError(`${join(directory, STATE)} has no step. Load another checkpoint.`);
    await this.#parts.session.backend.loadState(join(directory, 'state'));
    await this.#credit.loadState?.(this.#creditFolder(directory));
    this.#step = step as number;
    this.#calls = 0;
    await this.#serve(Math.max(this.#step, this.#version + 1), []);
  }

  /** A module chooses the names of its files, so it has a folder of its own. */
  #creditFolder(directory: string): string {
    return this.#parts.run.ownCredit === undefined ? directory : join(directory, 'credit');
  }

  /** Serves the adapter that the training starts from. */
  serveInitial(): Promise<void> {
    return this.#serve(0, []);
  }

  /** Runs an operation after those that were called before it, however they end. */
  #next<T>(operation: () => Promise<T>): Promise<T> {
    const start = () => this.#parts.within(operation);
    const run = this.#last.then(start, start);
    this.#last = run;
    return run;
  }

  /** The sampler gets the weights of the backend. */
  async #serve(version: number, trajectories: readonly Trajectory[]): Promise<void> {
    const { run, session, policy, signal } = this.#parts;
    const published = await policy.publish(version, await probeTexts({ run, session, signal }, trajectories), signal);
    if (!published.ok) throw published.reason;
    this.#version = version;
  }
}

const GENERATE_OPTIONS: OptionKinds<GenerateOptions> = { rolloutsPerRow: 'count', maxTokens: 'count' };

/** Throws ConfigError for rows and options that cannot be played as asked. */
function checkGenerated(name: string, rows: readonly Row[], options: GenerateOptions): void {
  checkOptions(name, options, GENERATE_OPTIONS);
  const [nothing] = Object.entries(options).filter(([, count]) => count === 0);
  if (nothing !== undefined) throw new ConfigError(`${nothing[0]} of ${name} must be at least 1, got 0.`);
  const ids = new Set<string>();
  for (const [i, row] of Array.from<Row | null | undefined>(rows).entries()) {
    if (!Array.isArray(row?.prompt))
      throw new ConfigError(`${name} needs rows, such as environment.train.at(0), but item ${i} of its list is not a row.`);
    const id = String(row.exampleId);
    if (ids.has(id))
      throw new ConfigError(`${name} got the row ${id} twice, and both would give the same samples. Give it once, with a larger rolloutsPerRow.`);
    ids.add(id);
  }
}

/** Describes the first trajectory that has the tokens of an earlier one; null if there is none. */
function copied(trajectories: readonly Trajectory[]): string | null {
  const seen = new Set<Int32Array>();
  const twice = trajectories.find(({ ids }) => seen.has(ids) || !seen.add(ids));
  return twice === undefined ? null : `${twice.rolloutId} is a copy of an earlier one; give it once, and a larger advantage`;
}

/** The given advantages for the trajectories, one each, in place of those that the rewards give. */
function givenCredit(trajectories: readonly Trajectory[], advantages: ArrayLike<Advantage>): Credit {
  if (advantages.length !== trajectories.length)
    throw new ConfigError(`updatePolicy needs an advantage for each of the ${trajectories.length} trajectories, got ${advantages.length}.`);
  const given = new Map(trajectories.map((trajectory, i) => [trajectory, advantages[i]!]));
  for (const [i, trajectory] of trajectories.entries()) {
    const problem = advantageProblem(advantages[i], creditRollout(trajectory));
    if (problem !== null) throw new ConfigError(`The advantage number ${i} of updatePolicy, of ${trajectory.rolloutId}, ${problem}.`);
  }
  return {
    assign: ({ groups }) => ({
      advantages: groups.map((members) => members.map(({ trajectory }) => given.get(trajectory)!)),
      constantReason: 'every advantage is 0',
    }),
  };
}

function updatedPolicy({ algorithm: { kl } }: TrainingConfig, metrics: UpdatedPolicy['metrics'], unchanged: string | null): UpdatedPolicy {
  const { loss = null, kl: klDiv = null, reward_mean: avgReward = null } = metrics;
  return { loss, klDiv, avgReward, beta: kl.coefficient, unchanged, metrics };
}

function searchedShare(trajectories: readonly Trajectory[]): number | null {
  const known = trajectories.filter(isFinished).flatMap(({ metrics }) => metrics['searched'] ?? metrics['searches'] ?? []);
  return known.length === 0 ? null : known.filter((count) => count > 0).length / known.length;
}

async function readState(path: string): Promise<unknown> {
  try {
    return readJson(await readRegularFile(path));
  } catch (cause) {
    throw new ResultsError(`${path} cannot be read, so there is no whole checkpoint. Load another one.`, { cause });
  }
}
