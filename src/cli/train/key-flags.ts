/** The flags of `vf-train` that set one key of the configuration. */
import { VfError } from '../../core/errors.ts';
import { flagOf } from '../options/option.ts';

interface KeyFlag {
  /** Dotted key of the configuration. */
  readonly key: string;
  readonly letter?: string;
  /** The value that a switch sets. */
  readonly value?: unknown;
}

/** By the name of the option in camelCase: `examplesPerStep` is `--examples-per-step`. */
export const KEY_FLAGS = {
  model: { key: 'model.path', letter: 'm' },
  envArgs: { key: 'environment.args' },
  evalArgs: { key: 'environment.eval_args' },
  name: { key: 'name' },
  outputDir: { key: 'output_dir' },
  apiKeyVar: { key: 'policy.api_key_var', letter: 'k' },
  serverModel: { key: 'policy.model' },
  temperature: { key: 'rollouts.temperature', letter: 'T' },
  maxTokens: { key: 'rollouts.max_tokens', letter: 't' },
  rollouts: { key: 'rollouts_file' },
  maxCost: { key: 'guards.max_cost' },
  examplesPerStep: { key: 'rollouts.examples_per_step', letter: 'n' },
  rolloutsPerExample: { key: 'rollouts.rollouts_per_example', letter: 'r' },
  maxConcurrent: { key: 'rollouts.max_concurrent', letter: 'c' },
  async: { key: 'rollouts.max_staleness', value: 1 },
  lr: { key: 'optimizer.learning_rate' },
  rank: { key: 'lora.rank' },
  seed: { key: 'seed' },
  tensorboard: { key: 'logging.tensorboard', value: true },
  wandb: { key: 'logging.wandb.project' },
} as const satisfies Readonly<Record<string, KeyFlag>>;

export type KeyFlagName = keyof typeof KEY_FLAGS;

const FLAGS: ReadonlyMap<string, string> = new Map([
  ...Object.entries<KeyFlag>(KEY_FLAGS).map(([name, { key, letter }]) => [key, letter === undefined ? flagOf(name) : `-${letter}`] as const),
  // Their flags set other keys too.
  ['policy.base_url', '-b'],
  ['backend.python', '--python'],
  ['sft.data', '--sft'],
  ['[policy.launch]', '--launch'],
  ['[policy.embedded]', '--embedded'],
]);
const REMEDY = /(?<=\b(?:set|lower) )[a-z_.]*[a-z_](?! =|[=.\w])|\[policy\.(?:launch|embedded)\](?= to | or |\.$)/gi;

/** The sentence with the flags of the keys that it advises to set: `set model.path (-m) to`. */
export function withFlags(sentence: string): string {
  return sentence.replace(REMEDY, (key) => (FLAGS.has(key) ? `${key} (${FLAGS.get(key)})` : key));
}

/** Settles as `work` does; its errors name flags too. */
export async function namingFlags<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof VfError) error.message = withFlags(error.message);
    throw error;
  }
}
