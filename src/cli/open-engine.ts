/** The embedded engine as a command opens it: what is wrong with a model is a matter of settings, told in one line. */
import { statSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { EngineInputError, MemoryLimitError } from '../engine/engine-errors.ts';
import type { Engine, EngineOptions } from '../engine/engine-types.ts';
import { readModelConfig } from '../engine/model/read-model-config.ts';
import { bundledModels } from './bundled-model.ts';
import { cacheProblem } from './cache-problem.ts';

/**
 * Throws ConfigError for a directory that is none, holds another kind of model, or is too large, and for a cache that does not fit; CancelledError. `cacheSetting` is what
 * the user calls `cacheTokens`.
 */
export async function openEngine(options: EngineOptions, cacheSetting = 'cache_tokens'): Promise<Engine> {
  await checkModel(options.modelPath);
  const { EmbeddedEngine } = await import('../engine/embedded-engine.ts');
  try {
    return await EmbeddedEngine.open(options);
  } catch (cause) {
    if (!(cause instanceof EngineInputError || cause instanceof MemoryLimitError)) throw cause;
    throw new ConfigError((await cacheProblem(cause, options, cacheSetting)) ?? cause.message, { cause });
  }
}

/** Reads the model's configuration alone. Throws ConfigError for a directory that is none or holds another kind of model. */
export async function checkModel(modelPath: string): Promise<void> {
  if (statSync(modelPath, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new ConfigError(
      `Expected the embedded engine's model to be a Hugging Face directory of a dense Qwen3, or one of this package by name (${bundledModels().join(', ')}); there is no directory ${modelPath}`,
    );
  }
  try {
    await readModelConfig(modelPath);
  } catch (cause) {
    if (!(cause instanceof EngineInputError)) throw cause;
    throw new ConfigError(cause.message, { cause });
  }
}
