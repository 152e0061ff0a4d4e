/** Opens the embedded engine for a command: faults of a model become one-line ConfigErrors. */
import { ConfigError } from '../../core/errors.ts';
import { EngineInputError, MemoryLimitError } from '../../engine/engine-errors.ts';
import type { EngineOptions, TokenEngine } from '../../engine/engine-types.ts';
import { readModelConfig } from '../../engine/model/read-model-config.ts';
import { Folder } from '../../files/folder.ts';
import { bundledModels } from '../../data/bundled-models.ts';
import { cacheProblem } from './cache-problem.ts';
import { statIfThere } from '../../files/regular-file.ts';

/**
 * Throws ConfigError if the directory does not exist, holds another kind of model, the model is too large or the cache does not fit; also CancelledError. `cacheSetting` is the
 * user's name for `cacheTokens`.
 */
export async function openEngine(options: EngineOptions, cacheSetting = 'cache_tokens'): Promise<TokenEngine> {
  await checkModel(options.modelPath);
  const { EmbeddedEngine } = await import('../../engine/embedded-engine.ts');
  try {
    return await EmbeddedEngine.open(options);
  } catch (cause) {
    if (!(cause instanceof EngineInputError || cause instanceof MemoryLimitError)) throw cause;
    throw new ConfigError((await cacheProblem(cause, options, cacheSetting)) ?? cause.message, { cause });
  }
}

/** Reads only the model's configuration. Throws ConfigError if the directory does not exist or holds another kind of model. */
export async function checkModel(modelPath: string): Promise<void> {
  if (statIfThere(modelPath)?.isDirectory() !== true) {
    throw new ConfigError(
      `The directory ${modelPath} does not exist. The embedded engine needs a Hugging Face directory of a dense Qwen3 model, or the name of a bundled model (${bundledModels().join(', ')})`,
    );
  }
  try {
    await readModelConfig(new Folder(modelPath));
  } catch (cause) {
    if (!(cause instanceof EngineInputError)) throw cause;
    throw new ConfigError(cause.message, { cause });
  }
}
