/**
 * Translates the specification's YAML into arguments of the environment and settings of `vf-train`, its supervised stage included. Only keys that the document has
 * count, so that a preset keeps its own values for the others. Of the modules about that document, only this one reads files.
 */
import { ConfigError } from 'vf-search';
import { readDocument, type TrainingSetting } from 'vf-search/environment-kit';
import { CRSP_KEYS, type CrspConfig, parseCrspConfig } from './crsp-config.ts';
import type { TaskKind } from './records.ts';

export interface ReadCrspConfig {
  readonly config: CrspConfig;
  /** The keys that the document has, dotted. */
  readonly givenKeys: readonly string[];
}

/**
 * The configuration in a YAML or JSON file, or of an object. Rejects with ConfigError, in one line, for a file that cannot be read and a document that
 * `parseCrspConfig` refuses.
 * @param source the path of a file, or its parsed contents
 */
export async function readCrspConfig(source: unknown): Promise<ReadCrspConfig> {
  const parsed = parseCrspConfig(typeof source === 'string' ? await readDocument(source) : source);
  if (parsed.ok) return { config: parsed.config, givenKeys: parsed.givenKeys };
  throw new ConfigError(`${typeof source === 'string' ? `${source}: ` : ''}${parsed.problem}.`);
}

/** The arguments that the document sets; absent if it does not set them. */
export interface CrspArguments {
  readonly kinds?: readonly TaskKind[];
  /** Workers that execute programs. */
  readonly workers?: number;
  /** `constant`: the weights of correctness and agreement keep the schedule's last values, 0.95 and 0.8. */
  readonly schedule?: 'rlsp_coupled' | 'constant';
  /** In tokens. */
  readonly lengthReward?: { readonly maxLength: number; readonly penaltyThreshold: number };
  /** Null: no critics. */
  readonly critique?: { readonly dimensions: readonly string[] } | null;
}

/**
 * @param keys that count, dotted. @default all
 * @example crspArguments(config, ['crsp.executor_max_workers']) // { workers: 1 }
 */
export function crspArguments({ crsp, reward_structure: reward }: CrspConfig, keys: readonly string[] = CRSP_KEYS): CrspArguments {
  const { alpha_decay: decay, creativity_grading: grading, length_reward: length } = reward;
  const has = (prefix: string) => keys.some((key) => key.startsWith(prefix));
  return {
    ...(has('crsp.problem_types') && { kinds: crsp.problem_types }),
    ...(has('crsp.executor_max_workers') && { workers: crsp.executor_max_workers }),
    ...(has('reward_structure.alpha_decay.') && { schedule: decay.enabled ? decay.schedule_type : 'constant' }),
    ...(has('reward_structure.length_reward.') && { lengthReward: { maxLength: length.max_length, penaltyThreshold: length.penalty_threshold } }),
    ...(has('reward_structure.creativity_grading.') && { critique: grading.enabled ? { dimensions: grading.dimensions } : null }),
  };
}

/**
 * The settings of `vf-train` that keys of the document stand for. With `trajectory_seeding.enabled`, its four keys are supervised steps before the first one on
 * rollouts, with the document's loss: the mean over rows of -(log p of the solution + the weighted log p of the answer).
 * @param keys that the document has, dotted
 */
export function crspTrainingSettings({ crsp, trajectory_seeding: seeding }: CrspConfig, keys: readonly string[]): TrainingSetting[] {
  const { enabled, limo_dataset_path: problems, seeding_steps: steps, learning_rate: learningRate, batch_size: rows } = seeding;
  const seed: TrainingSetting[] = keys.includes('crsp.seed') ? [{ argument: 'crsp.seed', key: 'seed', value: crsp.seed }] : [];
  if (!enabled) return seed;
  return [
    ...seed,
    { argument: 'trajectory_seeding.enabled', key: 'sft.aggregation', value: 'sequence_mean_token_sum' },
    { argument: 'trajectory_seeding.limo_dataset_path', key: 'sft.problems', value: problems },
    { argument: 'trajectory_seeding.seeding_steps', key: 'sft.steps', value: steps },
    { argument: 'trajectory_seeding.learning_rate', key: 'sft.learning_rate', value: learningRate },
    { argument: 'trajectory_seeding.batch_size', key: 'sft.batch_size', value: rows },
  ];
}

/** Notices about keys of the document that change nothing here, or nothing in an evaluation. */
export function crspNotices({ config, givenKeys }: ReadCrspConfig, purpose: 'evaluation' | 'training'): string[] {
  const isIdle = purpose === 'evaluation' && config.trajectory_seeding.enabled;
  return [
    ...(givenKeys.includes('crsp.executor_cleanup_frequency')
      ? [
          'crsp.executor_cleanup_frequency changes nothing: every program runs in an interpreter of its own, so there is nothing to clean up. Leave it out.',
        ]
      : []),
    ...(isIdle ? ['trajectory_seeding takes place in vf-train: an evaluation plays the policy as it is.'] : []),
  ];
}
