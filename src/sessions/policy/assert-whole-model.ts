/** Refuses an adapter where a base is wanted, and says how to give both. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { adapterConfig } from '../../files/model-facts.ts';
import { newestAdapter } from './embedded-model.ts';
import { modelFolder } from './model-folder.ts';
import { statIfThere } from '../../files/regular-file.ts';

/** Throws ConfigError if `model.path` names an adapter, or a training run, instead of a whole model. */
export function assertWholeModel(model: string, variables: Readonly<Record<string, string | undefined>>): void {
  const folder = modelFolder(model, variables);
  if (statIfThere(folder)?.isDirectory() !== true || existsSync(join(folder, 'config.json'))) return;
  const adapter = newestAdapter(folder) ?? folder;
  const config = adapterConfig(adapter);
  if (config === null) return;
  const { base_model_name_or_path: base, r, lora_alpha: alpha, target_modules: targets } = config;
  const what = adapter === folder ? `${model} is a LoRA adapter` : `${model} is the folder of a training run, whose newest adapter is ${adapter}`;
  const settings = { 'lora.rank': r, 'lora.alpha': alpha, 'lora.targets': targets };
  throw new ConfigError(
    `${what}, not a whole model. To train it further, set model.path to its base${typeof base === 'string' ? `, ${base},` : ''} and model.initial_adapter to ${resolve(adapter)}, with ${Object.entries(
      settings,
    )
      .map(([key, value]) => `${key} = ${JSON.stringify(value) ?? 'its own'}`)
      .join(', ')}.`,
  );
}
