/** Divides the engine's memory among its threads: the longest sequence, the tokens in a cache, and the rows computed at once. */
import { cacheBlockBytes } from './compute/dimensions.ts';
import type { ForwardLimits } from './compute/forward-types.ts';
import { MAX_MEMORY_BYTES } from './compute/memory.ts';
import { forwardBytes } from './compute/transformer-pass.ts';
import { EngineInputError } from './engine-errors.ts';
import type { EngineOptions } from './engine-types.ts';
import { BLOCK_TOKENS } from './kernels/kernels.ts';
import { MAX_ADAPTER_RANK, type ModelConfig } from './model/model-types.ts';

/** For all threads together, unless the longest sequence needs more. */
const DEFAULT_CACHE_BYTES = 64 * 2 ** 20;
/** Tokens of a prompt computed at once. Between two such chunks the other requests get their next token. */
const ROWS = 256;
const LOGIT_ROWS = 64;
/** Logits computed at once: 64 rows of up to 65,536 tokens. */
const LOGIT_BYTES = 16 * 2 ** 20;
/** Share of the memory left by the model that is kept for adapters and training. */
const KEPT_SHARE = 0.25;

export interface ThreadMemory {
  readonly limits: ForwardLimits;
  readonly cacheBlocks: number;
  readonly cacheBytes: number;
  readonly scratchBytes: number;
}

/** The longest sequence if the user set none. `config` is the model's own, `modelBytes` the memory that the model takes. */
export function defaultMaxModelLen(config: ModelConfig, { modelBytes, threads }: { readonly modelBytes: number; readonly threads: number }): number {
  const beside = (MAX_MEMORY_BYTES - modelBytes) * (1 - KEPT_SHARE);
  const blocks = Math.floor((beside / threads - scratchBytes(config)) / cacheBlockBytes(config));
  return Math.min(config.maxPositions, Math.max(blocks, 1) * BLOCK_TOKENS);
}

/** Memory of one thread; null if it only trains. `config.maxPositions` is the longest sequence. Throws EngineInputError. */
export function planThreadMemory(
  config: ModelConfig,
  { threads, cacheTokens }: { readonly threads: number; readonly cacheTokens: EngineOptions['cacheTokens'] },
): ThreadMemory | null {
  if (cacheTokens === 0) return null;
  const blockBytes = cacheBlockBytes(config);
  const wanted = cacheTokens ?? Math.max(config.maxPositions, Math.floor(DEFAULT_CACHE_BYTES / threads / blockBytes) * BLOCK_TOKENS);
  if (!Number.isSafeInteger(wanted) || wanted < config.maxPositions) {
    const remedy = 'Raise it, lower maxModelLen, or set it to 0 for an engine that only trains.';
    throw new EngineInputError(`A cache of ${wanted} tokens cannot hold the longest sequence, ${config.maxPositions} tokens. ${remedy}`);
  }
  const cacheBlocks = Math.ceil(wanted / BLOCK_TOKENS);
  return { limits: limitsOf(config), cacheBlocks, cacheBytes: cacheBlocks * blockBytes, scratchBytes: scratchBytes(config) };
}

function limitsOf({ vocabularySize }: ModelConfig): ForwardLimits {
  const fitting = Math.floor(LOGIT_BYTES / 4 / vocabularySize);
  return { rows: ROWS, logitRows: Math.min(LOGIT_ROWS, Math.max(fitting, 1)) };
}

const scratchBytes = (config: ModelConfig): number => forwardBytes(config, limitsOf(config), MAX_ADAPTER_RANK);
