/** Explains why the embedded engine could not be opened with the requested cache, with the name of the setting. */
import { cacheBlockBytes } from '../../engine/compute/dimensions.ts';
import { MAX_MEMORY_BYTES } from '../../engine/compute/memory.ts';
import { MemoryLimitError } from '../../engine/engine-errors.ts';
import type { EngineOptions } from '../../engine/engine-types.ts';
import { BLOCK_TOKENS } from '../../engine/kernels/kernels.ts';
import { defaultMaxModelLen, planThreadMemory } from '../../engine/memory-plan.ts';
import { readWeightTypes } from '../../engine/model/model-files.ts';
import { modelBytes } from '../../engine/model/model-layout.ts';
import { readModelConfig } from '../../engine/model/read-model-config.ts';
import { Folder } from '../../files/folder.ts';
import { engineThreads } from './address-notice.ts';

/** Share of the memory next to the model that stays free for adapters and training, so that a recommended value does not fail there. */
const KEPT_SHARE = 0.25;

/** Returns one line; null if the cache is not the cause. `setting` is the user's name for it: `--cache-tokens`. */
export async function cacheProblem(cause: unknown, options: EngineOptions, setting: string): Promise<string | null> {
  const { cacheTokens, modelPath } = options;
  const threads = engineThreads(options);
  if (cacheTokens === undefined || cacheTokens === 0) return null;
  const own = await readModelConfig(new Folder(modelPath)).catch(() => null);
  const types = await readWeightTypes(new Folder(modelPath)).catch(() => null);
  if (own === null || types === null) return null;
  const least = options.maxModelLen ?? defaultMaxModelLen(own, { modelBytes: modelBytes(own, types), threads });
  if (cacheTokens < least) return `${setting} must be at least ${least}, the length of the longest sequence, got ${cacheTokens}`;
  if (!(cause instanceof MemoryLimitError)) return null;
  const config = { ...own, maxPositions: least };
  const { scratchBytes } = planThreadMemory(config, { threads, cacheTokens: least })!;
  const beside = (MAX_MEMORY_BYTES - modelBytes(config, types)) * (1 - KEPT_SHARE);
  const most = Math.floor((beside / threads - scratchBytes) / cacheBlockBytes(config)) * BLOCK_TOKENS;
  if (most < least || cacheTokens <= most) return null;
  const each = threads === 1 ? 'its thread has' : `each of its ${threads} threads has`;
  return `${setting} must be at most ${most}, which is what ${each} left for its cache in the embedded engine's 4 GiB after model, adapters and training; got ${cacheTokens}`;
}
