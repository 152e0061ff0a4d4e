/** Creates the parts of the embedded engine. The threads are started first, so that they come up while the model is read. */
import { onAbort, throwIfAborted } from '../core/abort.ts';
import { sharedBuffer } from '../core/shared-buffer.ts';
import { placeAdapter } from './adapters/place-adapter.ts';
import { readAdapter } from './adapters/read-adapter.ts';
import { SharedMemory } from './compute/memory.ts';
import { EngineInputError } from './engine-errors.ts';
import type { EngineHost } from './engine-host.ts';
import type { EngineOptions } from './engine-types.ts';
import { instantiateKernels, type KernelsBuild } from './kernels/compile-kernels.ts';
import type { Kernels } from './kernels/kernels.ts';
import type { KernelsModule } from './kernels/web-assembly.ts';
import { defaultMaxModelLen, planThreadMemory, type ThreadMemory } from './memory-plan.ts';
import { loadModel } from './model/load-model.ts';
import type { ModelConfig, ModelWeights } from './model/model-types.ts';
import { readModelConfig } from './model/read-model-config.ts';
import { ServedAdapters } from './served-adapters.ts';
import { GAUGES, type ThreadSetup } from './threads/messages.ts';
import { ThreadPool } from './threads/thread-pool.ts';
import { TokenizerError } from '../tokenizer/tokenizer-error.ts';
import type { ByteSource } from '../files/byte-source.ts';
import { readTokenizer } from '../tokenizer/read-tokenizer.ts';
import type { WithinTime } from '../tokenizer/time-limit.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';

const MAX_DEFAULT_THREADS = 8;
const MAX_THREADS = 64;
const DEFAULT_MAX_PENDING = 1024;
const STOPPED_OPENING = 'Stopped while the embedded engine was opened';
const STOPPED_LOADING = 'Stopped while an adapter was loaded';

export interface EngineParts {
  readonly host: EngineHost;
  readonly pool: ThreadPool;
  readonly memory: SharedMemory;
  readonly kernels: Kernels;
  readonly model: ModelWeights;
  readonly tokenizer: ModelTokenizer;
  readonly adapters: ServedAdapters;
  readonly build: KernelsBuild;
  readonly maxPending: number;
  /** False if the engine only trains, or embeds. */
  readonly canSample: boolean;
  readonly embeds: boolean;
  readonly seed: number;
}

/** Rejects with EngineInputError, MemoryLimitError, EngineLostError or CancelledError; then no thread is left running. */
export async function openParts(host: EngineHost, options: EngineOptions): Promise<EngineParts> {
  const { signal, maxPending = DEFAULT_MAX_PENDING, seed = 0 } = options;
  const threads = options.threads ?? Math.min(host.cores, MAX_DEFAULT_THREADS);
  checkRange('threads', threads, MAX_THREADS);
  checkRange('maxPending', maxPending, Number.MAX_SAFE_INTEGER);
  if (!Number.isSafeInteger(seed)) throw new EngineInputError(`The engine's seed must be an integer, got ${seed}.`);
  throwIfAborted(signal, STOPPED_OPENING);
  const pool = new ThreadPool(threads, host.startThread);
  using _ = onAbort(signal, () => void pool.close());
  try {
    return { ...(await openOver(host, pool, options)), maxPending, seed };
  } catch (error) {
    await pool.close();
    throwIfAborted(signal, STOPPED_OPENING);
    throw error;
  }
}

async function openOver(host: EngineHost, pool: ThreadPool, options: EngineOptions): Promise<Omit<EngineParts, 'maxPending' | 'seed'>> {
  const { modelPath, cacheTokens, embeds = false, signal } = options;
  const memory = new SharedMemory();
  const { module, build } = await host.loadKernels();
  const kernels = instantiateKernels(module, memory.memory);
  const source = host.folder(modelPath);
  const ownConfig = await readModelConfig(source);
  // A fault in the tokenizer is reported before a large model is read.
  const tokenizer = await openModelTokenizer(source, ownConfig, { chatTemplate: options.chatTemplate, withinTime: host.withinTime });
  const chooseLength = (own: ModelConfig, modelBytes: number) => defaultMaxModelLen(own, { modelBytes, threads: pool.size });
  const model = await loadModel(source, { memory, kernels, maxModelLen: options.maxModelLen ?? chooseLength, signal });
  const plan = planThreadMemory(model.config, { threads: pool.size, cacheTokens });
  await pool.open(Array.from({ length: pool.size }, () => threadSetup({ module, memory, model, tokenizer, plan, embeds })));
  const adapters = new ServedAdapters({
    memory,
    place: async ({ name, directory, signal: loading }, id) => {
      throwIfAborted(loading, STOPPED_LOADING);
      const read = await readAdapter(host.folder(directory), model.config);
      throwIfAborted(loading, STOPPED_LOADING);
      const placed = placeAdapter(read, { memory, kernels, id, config: model.config });
      return { ...placed, about: { name, directory, rank: read.rank, alpha: read.alpha } };
    },
    forget: (id) => pool.forgetAdapter(id),
  });
  return { host, pool, memory, kernels, model, tokenizer, build, canSample: plan !== null && !embeds, embeds: plan !== null && embeds, adapters };
}

async function openModelTokenizer(
  source: ByteSource,
  { vocabularySize }: ModelConfig,
  { chatTemplate, withinTime }: { readonly chatTemplate: string | undefined; readonly withinTime: WithinTime | undefined },
): Promise<ModelTokenizer> {
  try {
    return await readTokenizer(source, { vocabularySize, ...(chatTemplate !== undefined && { chatTemplate }), ...(withinTime && { withinTime }) });
  } catch (error) {
    throw error instanceof TokenizerError ? new EngineInputError(error.message, { code: error.code, cause: error }) : error;
  }
}

interface SetupParts {
  readonly module: KernelsModule;
  readonly memory: SharedMemory;
  readonly model: ModelWeights;
  readonly tokenizer: ModelTokenizer;
  readonly plan: ThreadMemory | null;
  readonly embeds: boolean;
}

/** Allocates one thread's memory. */
function threadSetup({ module, memory, model, tokenizer, plan, embeds }: SetupParts): ThreadSetup {
  const sampling = plan && {
    limits: plan.limits,
    cache: { pointer: memory.allocate(plan.cacheBytes).pointer, blocks: plan.cacheBlocks },
    scratch: memory.allocate(plan.scratchBytes),
  };
  const gauges = new Float64Array(sharedBuffer(GAUGES.length * 8));
  return { module, memory: memory.memory, weights: model, tokenBytes: tokenizer.bytes, sampling, embeds, gauges };
}

function checkRange(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return;
  throw new EngineInputError(`${name} must be a whole number from 1 to ${most}, got ${value}.`);
}
