/** How the engine's memory is divided among its threads: how long a sequence may be, how many tokens a cache holds, how much is computed at once. */
import { cacheBlockBytes } from './compute/dimensions.ts';
import type { ForwardLimits } from './compute/forward-types.ts';
import { MAX_MEMORY_BYTES } from './compute/memory.ts';
import { forwardBytes } from './compute/transformer-pass.ts';
import { EngineInputError } from './engine-errors.ts';
import type { EngineOptions } from './engine-types.ts';
import { BLOCK_TOKENS } from './kernels/kernels.ts';
import { MAX_ADAPTER_RANK, type ModelConfig } from './model/model-types.ts';

/** Of all threads together, unless the longest sequence needs more. */
const DEFAULT_CACHE_BYTES = 64 * 2 ** 20;
/** A prompt is computed in pieces of so many tokens, between which the others get their next one. */
const ROWS = 256;
const LOGIT_ROWS = 64;
/** Of the logits that are computed at once: 64 rows of up to 65,536 tokens. */
const LOGIT_BYTES = 16 * 2 ** 20;
/** Of the memory beside the model, for adapters and training. */
const KEPT_SHARE = 0.25;

export interface ThreadMemory {
  readonly limits: ForwardLimits;
  readonly cacheBlocks: number;
  readonly cacheBytes: number;
  readonly scratchBytes: number;
}

/** What the user did not set. `config` is the model's own, and `modelBytes` what the model takes. */
export function defaultMaxModelLen(config: ModelConfig, { modelBytes, threads }: { readonly modelBytes: number; readonly threads: number }): number {
  const beside = (MAX_MEMORY_BYTES - modelBytes) * (1 - KEPT_SHARE);
  const blocks = Math.floor((beside / threads - scratchBytes(config)) / cacheBlockBytes(config));
  return Math.min(config.maxPositions, Math.max(blocks, 1) * BLOCK_TOKENS);
}

/** Of one thread; null where it only trains. `config.maxPositions` is the longest sequence. Throws EngineInputError. */
export function planThreadMemory(
  config: ModelConfig,
  { threads, cacheTokens }: { readonly threads: number; readonly cacheTokens: EngineOptions['cacheTokens'] },
): ThreadMemory | null {
  if (cacheTokens === 0) return null;
  const blockBytes = cacheBlockBytes(config);
  const wanted = cacheTokens ?? Math.max(config.maxPositions, Math.floor(DEFAULT_CACHE_BYTES / threads / blockBytes) * BLOCK_TOKENS);
  if (!Number.isSafeInteger(wanted) || wanted < config.maxPositions) {
    const remedy = 'set it to 0 for an engine that only trains, or lower the longest sequence';
    throw new EngineInputError(`Expected a cache of at least ${config.maxPositions} tokens, the longest sequence, got ${wanted}; ${remedy}`);
  }
  const cacheBlocks = Math.ceil(wanted / BLOCK_TOKENS);
  return { limits: limitsOf(config), cacheBlocks, cacheBytes: cacheBlocks * blockBytes, scratchBytes: scratchBytes(config) };
}

function limitsOf({ vocabularySize }: ModelConfig): ForwardLimits {
  const fitting = Math.floor(LOGIT_BYTES / 4 / vocabularySize);
  return { rows: ROWS, logitRows: Math.min(LOGIT_ROWS, Math.max(fitting, 1)) };
}

const scratchBytes = (config: ModelConfig): number => forwardBytes(config, limitsOf(config), MAX_ADAPTER_RANK);
