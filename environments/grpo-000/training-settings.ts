/** Translates the specification's keys of training into a configuration of `vf-train`. */
import { ConfigError, type TrainingSettings } from 'vf-search';
import type { TrainingSetting } from 'vf-search/environment-kit';
import { parseArguments, parseConfigArguments } from './arguments.ts';
import type { ConfigKey, SearchR1Config } from './config.ts';
import { questionsOf } from './load-questions.ts';

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

/** The settings of keys that need no data; keys without a counterpart and those of the environment itself have none. */
export function settingsOfKeys(config: SearchR1Config, keys: readonly ConfigKey[]): TrainingSetting[] {
  const named = keys.flatMap((argument) => (NAMES[argument] ?? []).map((key) => ({ argument, key, value: config[argument] })));
  // The document's cuda is "CUDA if available, else CPU", as backend.device is by default.
  return keys.includes('device') && config.device === 'cpu' ? [...named, { argument: 'device', key: 'backend.device', value: 'cpu' }] : named;
}

/**
 * The settings that given keys stand for; others keep the trainer's own values. `num_epochs` is a number of steps: passes over the training rows, `batch_size`
 * or `rollouts.examples_per_step` of them in a step.
 * @example await trainingSettings({ group_size: 4 }, context) // [{ argument: 'group_size', key: 'rollouts.rollouts_per_example', value: 4 }]
 */
export const trainingSettings: TrainingSettings = async (args, { env, settingOf }) => {
  const { config, givenKeys } = await parseConfigArguments(args, env);
  if (config.use_openai)
    throw new ConfigError(
      'use_openai is set, but a model behind an API cannot be trained. Leave it out, and name the model to train: model_name_or_path.',
    );
  const settings = settingsOfKeys(config, givenKeys);
  if (!givenKeys.includes('num_epochs')) return settings;
  const parsed = await parseArguments(args, env);
  const { rows } = await questionsOf({ ...parsed, dataSplit: parsed.dataSplit ?? 'train' }, { env, purpose: 'evaluation' });
  const rowsPerStep = givenKeys.includes('batch_size') ? config.batch_size : Number(settingOf('rollouts.examples_per_step'));
  return [...settings, { argument: 'num_epochs', key: 'steps', value: Math.ceil((config.num_epochs * rows.length) / rowsPerStep) }];
};
