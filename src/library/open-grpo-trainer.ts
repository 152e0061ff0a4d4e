/** The operations of a GRPO trainer as functions, for a program that decides what each step does. The work is that of `vf-train`. */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { GenerateOptions, SteppedPolicy, UpdatedPolicy } from '../trainer/stepped-policy.ts';
import type { Advantage, CreditFactory } from '../trainer/credit.ts';
import type { Trajectory } from '../trainer/trajectory.ts';
import type { TrainOptions } from './train.ts';

type OfTrain<R extends Row> = Pick<
  TrainOptions<R>,
  'environment' | 'preset' | 'settings' | 'args' | 'maxWaitMs' | 'signal' | 'variables' | 'onNotice'
>;

/** As for `train`, without the options of a whole run. */
export interface GrpoTrainerOptions<R extends Row = Row> extends OfTrain<R> {
  /**
   * Turns the rewards of a step into advantages, as a module of `algorithm.advantage.use` does that exports it as createCredit; it gets `settings.algorithm.advantage.args`.
   * Its state is in checkpoints. @default the credit of the settings
   */
  readonly credit?: CreditFactory;
}

/** A policy that is sampled and trained. Its operations run one at a time, in the order of the calls. Dispose it at the end. */
export interface GrpoTrainer<R extends Row = Row> extends AsyncDisposable {
  /** Loaded for training: its `train` has the rows to train on. */
  readonly environment: Environment<R>;
  /** All settings, with their defaults. */
  readonly config: TrainingConfig;
  /** Updates done, those of a loaded checkpoint included. */
  readonly step: number;
  /**
   * Plays and scores rollouts of the rows with the current policy: `rolloutsPerRow` of each, in the order of the rows. A rollout that failed has an `error` and the
   * reward null. Rejects with TrainingError if more fail than `rollouts.max_error_rate` allows, and with ConfigError for a row that is given twice.
   */
  generate(rows: readonly Row[], options?: GenerateOptions): Promise<readonly Trajectory[]>;
  /** Advantages of one group, [G], as `algorithm.advantage` sets them; 0 for a group of one. Throws RewardError for a reward that is not finite. */
  computeAdvantages(rewards: readonly number[]): Float64Array;
  /** Mean over the tokens, in nats, by the estimator `algorithm.kl.estimator`; k3: r - log r - 1 with r = exp(old - new). Throws ConfigError unless both are [T], T ≥ 1, and finite. */
  klDivergence(oldLogProbs: ArrayLike<number>, newLogProbs: ArrayLike<number>): number;
  /**
   * One step on the trajectories, `algorithm.epochs` × `algorithm.minibatches` updates of the weights, after which the sampler has the new ones.
   * Rejects with ConfigError for a trajectory that nothing can have sampled, and for one that is given twice.
   * @param advantages one for each trajectory: a number, one for each turn, one for each token as a Float64Array, or null to leave it out. @default those that
   * their rewards give
   */
  updatePolicy(trajectories: readonly Trajectory[], advantages?: ArrayLike<Advantage>): Promise<UpdatedPolicy>;
  /** `generate` and `updatePolicy`. */
  trainStep(rows: readonly Row[], options?: GenerateOptions): Promise<SteppedPolicy>;
  /** Log-probs of the sampled tokens of each trajectory, [M_i], under the weights as they are now. */
  recomputeLogProbs(trajectories: readonly Trajectory[]): Promise<readonly Float64Array[]>;
  /** Writes the adapter (PEFT), the state of the optimiser and the step into a folder, which must not hold a checkpoint. */
  saveCheckpoint(directory: string): Promise<void>;
  /** Continues from such a folder, with the weights and the optimiser of then. Rejects with ResultsError if it is not whole. */
  loadCheckpoint(directory: string): Promise<void>;
}

/**
 * Opens a trainer. Nothing of it stays on disk but the checkpoints that you save. Rejects with ConfigError if it cannot run as asked.
 * @example
 * await using trainer = await openGrpoTrainer({ environment: 'grpo-000', preset: 'laptop' });
 * const { loss, klDiv, avgReward } = await trainer.trainStep([trainer.environment.train.at(0)]);
 */
export async function openGrpoTrainer<R extends Row = Row>(options: GrpoTrainerOptions<R>): Promise<GrpoTrainer<R>> {
  const { runGrpoTrainerOptions } = await import('./run-grpo-trainer-options.ts');
  // Only the environment itself reads the type of its rows.
  return (await runGrpoTrainerOptions(options as unknown as GrpoTrainerOptions)) as unknown as GrpoTrainer<R>;
}
