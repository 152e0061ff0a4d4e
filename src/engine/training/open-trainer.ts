/** Checks what a trainer is to be made of, and sets its memory aside: all of it, or nothing. */
import { CancelledError } from '../../core/errors.ts';
import { EngineInputError, MemoryLimitError } from '../engine-errors.ts';
import { MAX_MEMORY_BYTES, type SharedMemory } from '../compute/memory.ts';
import { trainingBytes } from '../compute/training-layout.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { ADAPTED, type AdapterWeights, type ModelConfig, type ModelWeights } from '../model/model-types.ts';
import { AdapterNumbers } from './adapter-numbers.ts';
import { mostTokens } from './batch-bytes.ts';
import { PackedAdapter } from './packed-adapter.ts';
import { adaptedModules, layOutNumbers } from './trainer-numbers.ts';
import type { TrainerOptions } from './trainer-types.ts';
import type { TrainingAnswer, TrainingCommand } from './training-commands.ts';

/** The threads as the trainer needs them. */
export interface TrainingThreads {
  readonly size: number;
  /** Rejects where the engine is lost or closed. */
  callTraining(thread: number, command: TrainingCommand): Promise<TrainingAnswer>;
}

export interface TrainerParts {
  readonly threads: TrainingThreads;
  readonly memory: SharedMemory;
  /** Of the main thread. */
  readonly kernels: Kernels;
  readonly model: ModelWeights;
  /** Called once, when the trainer has given its memory back. */
  readonly onClosed?: () => void;
}

export interface TrainerState {
  readonly numbers: AdapterNumbers;
  /** As it is trained. */
  readonly on: AdapterWeights;
  /** As it was at the start; null where that is the base. */
  readonly initial: AdapterWeights | null;
  /** Of activations. */
  readonly memoryBytes: number;
  readonly maxTokens: number;
  /** After the parameters have changed. */
  pack(): void;
  free(): void;
}

/** Activations of all threads together, unless a sequence of `LONG_TOKENS` needs more. */
const DEFAULT_MEMORY_BYTES = 192 * 2 ** 20;
const LONG_TOKENS = 2048;
/** Of the memory that is left, for adapters that are loaded later. */
const SPARED_SHARE = 0.125;
/** No request computes with it, so no cache of prefixes ever meets it. */
const ON_ID = -1;

/** Rejects with EngineInputError, MemoryLimitError or CancelledError. */
export async function openTrainer({ threads, memory, kernels, model }: TrainerParts, options: TrainerOptions): Promise<TrainerState> {
  const { config } = model;
  checkOptions(options);
  if (options.signal.aborted) throw new CancelledError('Stopped while a trainer was made', { cause: options.signal.reason });
  const { rank, alpha } = options;
  const layout = layOutNumbers(adaptedModules(config, options.targets), rank);
  const opened: { free(): void }[] = [];
  const keep = <T extends { free(): void }>(part: T): T => {
    opened.push(part);
    return part;
  };
  const free = () => opened.toReversed().forEach((part) => part.free());
  try {
    const numbers = keep(new AdapterNumbers(memory, layout, threads.size));
    const packed = { memory, kernels, layout, layers: config.layers, rank, alpha };
    const on = keep(new PackedAdapter({ ...packed, id: ON_ID }));
    const pack = () => on.pack(numbers.parameters);
    numbers.draw(options.seed);
    pack();
    const memoryBytes = memoryFor(config, memory, options);
    const maxTokens = mostTokens(config, memoryBytes, threads.size, options);
    if (maxTokens < 2)
      throw new MemoryLimitError(
        `Expected room for activations of a few tokens, ${(memoryBytes / 1e6).toFixed(0)} MB are left; take a smaller model or fewer threads`,
      );
    return { numbers, on: on.weights, initial: null, memoryBytes, maxTokens, pack, free };
  } catch (error) {
    free();
    throw error;
  }
}

function checkOptions({ rank, alpha, targets }: TrainerOptions): void {
  if (!(Number.isInteger(rank) && rank >= 1))
    throw new EngineInputError(`Expected the rank of an adapter to be a whole number from 1 up, got ${rank}`);
  if (!(Number.isFinite(alpha) && alpha > 0)) throw new EngineInputError(`Expected the alpha of an adapter to be above 0, got ${alpha}`);
  const wrong = targets.find((target) => !ADAPTED.includes(target));
  if (wrong !== undefined || targets.length === 0) {
    const remedy = 'this base has no linear layer of that name';
    throw new EngineInputError(`Expected lora.targets among ${ADAPTED.toSorted().join(', ')}, got ${wrong ?? 'none'}; ${remedy}`, {
      code: 'unsupported',
    });
  }
}

function memoryFor(config: ModelConfig, memory: SharedMemory, { rank, checkpointing, memoryBytes }: TrainerOptions): number {
  const left = (MAX_MEMORY_BYTES - memory.used) * (1 - SPARED_SHARE);
  const longest = Math.min(config.maxPositions, LONG_TOKENS);
  const wanted = memoryBytes ?? Math.max(DEFAULT_MEMORY_BYTES, trainingBytes(config, { tokens: longest, sequences: 1, rank, checkpointing }));
  return Math.floor(Math.min(wanted, left));
}
