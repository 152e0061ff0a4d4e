import type { ConfigKey, SearchR1Config } from './config.ts';

/** What the specification's keys of training are called in a configuration of `vf-train`. */
const NAMES: Readonly<Partial<Record<ConfigKey, readonly string[]>>> = {
  model_name_or_path: ['model.path'],
  group_size: ['rollouts.rollouts_per_example'],
  batch_size: ['rollouts.examples_per_step'],
  update_times: ['algorithm.epochs'],
  clip_epsilon: ['algorithm.loss.clip_low', 'algorithm.loss.clip_high'],
  beta: ['algorithm.kl.coefficient'],
  learning_rate: ['optimizer.learning_rate'],
  max_grad_norm: ['optimizer.max_grad_norm'],
};

/**
 * The settings of `vf-train` that keys of the specification stand for, by their dotted names; keys without a counterpart (`device`, `num_epochs`,
 * `log_interval`, ...) and those of the environment itself have none.
 * @param keys those that were given; others keep the trainer's own defaults
 * @example trainingSettings(config, ['clip_epsilon']) // { 'algorithm.loss.clip_low': 0.2, 'algorithm.loss.clip_high': 0.2 }
 */
export function trainingSettings(config: SearchR1Config, keys: readonly ConfigKey[]): Readonly<Record<string, number | string>> {
  return Object.fromEntries(keys.flatMap((key) => (NAMES[key] ?? []).map((name) => [name, config[key] as number | string])));
}
