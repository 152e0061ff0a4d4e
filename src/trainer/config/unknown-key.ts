import { closestName } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { configKeys, configTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';

/** Names that other trainers give to this trainer's keys. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  lr: 'learning_rate',
  wd: 'weight_decay',
  eps: 'epsilon',
  batch_size: 'examples_per_step',
  num_generations: 'rollouts_per_example',
  group_size: 'rollouts_per_example',
  max_steps: 'steps',
  num_steps: 'steps',
  lora_alpha: 'alpha',
  lora_rank: 'rank',
  r: 'rank',
  target_modules: 'targets',
  kl_coef: 'coefficient',
  max_new_tokens: 'max_tokens',
};

/** The refusal of a key that no table has, with the key that was probably meant. */
export function unknownKey(path: string, siblings: readonly string[], source: string): ConfigError {
  const [name, table] = [path.split('.').at(-1)!, path.split('.').slice(0, -1).join('.')];
  // Compared without its table: a long table name would make every key look close.
  const closest = closestName(name, siblings);
  const beside = closest === null ? '' : ` (did you mean ${table === '' ? closest : `${table}.${closest}`}?)`;
  // A key in the wrong table is as common as a misspelled one.
  const meant = ABBREVIATIONS[name] ?? name;
  const everywhere = configKeys(configTable(trainingConfigSchema))
    .filter((key) => key.name === meant)
    .map((key) => key.path);
  const own = everywhere.filter((key) => key === `${table}.${meant}`);
  const elsewhere = own.length > 0 ? own : everywhere;
  const near = elsewhere.length > 0 ? ` (did you mean ${elsewhere.join(' or ')}?)` : beside;
  const where = table === '' ? 'at the top level' : `in [${table}]`;
  return new ConfigError(`Unknown key ${path} (${source})${near}; known keys ${where}: ${siblings.join(', ')}`);
}
