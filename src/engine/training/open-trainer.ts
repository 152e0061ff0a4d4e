/** Checks what a trainer is to be made of, and sets its memory aside: all of it, or nothing. */
import { CancelledError } from '../../core/errors.ts';
import { adaptedModules } from '../adapters/adapted-modules.ts';
import { allocateAdapter, packAdapter, placeAdapter, type PlacedAdapter } from '../adapters/place-adapter.ts';
import { type ReadAdapter, readAdapter } from '../adapters/read-adapter.ts';
import { EngineInputError, MemoryLimitError } from '../engine-errors.ts';
import { MAX_MEMORY_BYTES, type SharedMemory } from '../compute/memory.ts';
import { trainingBytes } from '../compute/training-layout.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { ADAPTED, type AdapterWeights, MAX_ADAPTER_RANK, type ModelConfig, type ModelWeights } from '../model/model-types.ts';
import { AdapterNumbers } from './adapter-numbers.ts';
import { mostTokens } from './batch-bytes.ts';
import { layOutNumbers } from './trainer-numbers.ts';
import type { TrainerOptions } from './trainer-types.ts';
import type { TrainingAnswer, TrainingCommand } from './training-commands.ts';

/** The threads as the trainer needs them. */
interface TrainingThreads {
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
/** No request computes with these, so no cache of prefixes ever meets them. */
const ON_ID = -1;
const INITIAL_ID = -2;

/** Rejects with EngineInputError, MemoryLimitError or CancelledError. */
export async function openTrainer(parts: TrainerParts, options: TrainerOptions): Promise<TrainerState> {
  checkOptions(options);
  const start = options.initial === null ? null : await readStart(options.initial, parts.model.config, options);
  if (options.signal.aborted) throw new CancelledError('Stopped while a trainer was made', { cause: options.signal.reason });
  const frees: (() => void)[] = [];
  const free = () => frees.toReversed().forEach((freeOne) => freeOne());
  try {
    return { ...setUp(parts, options, start, (freeOne) => frees.push(freeOne)), free };
  } catch (error) {
    free();
    throw error;
  }
}

function setUp(
  { threads, memory, kernels, model: { config } }: TrainerParts,
  options: TrainerOptions,
  start: ReadAdapter | null,
  onFree: (free: () => void) => void,
): Omit<TrainerState, 'free'> {
  const { rank, alpha, targets, seed } = options;
  const modules = adaptedModules(config, targets);
  const numbers = new AdapterNumbers(memory, layOutNumbers(modules, rank), threads.size);
  onFree(() => numbers.free());
  const keep = ({ weights, regions }: PlacedAdapter): AdapterWeights => {
    onFree(() => regions.forEach((region) => memory.free(region)));
    return weights;
  };
  const on = keep(allocateAdapter(modules, { memory, id: ON_ID, rank, config }));
  const initial = start === null ? null : keep(placeAdapter(start, { memory, kernels, id: INITIAL_ID, config }));
  const rows = numbers.matrices(numbers.parameters, { rank, layers: config.layers });
  const pack = () => packAdapter(on, rows, { memory: memory.memory, kernels, rank, scale: alpha / rank });
  if (start === null) numbers.draw(seed);
  else numbers.writeParameters(start.tensors);
  pack();
  const memoryBytes = memoryFor(config, memory, options);
  const maxTokens = mostTokens(config, memoryBytes, threads.size, options);
  if (maxTokens < 2) {
    throw new MemoryLimitError(
      `Expected room for the activations of a few tokens, got ${(memoryBytes / 1e6).toFixed(0)} MB; give it more, shorten the longest sequence, or take a smaller model`,
    );
  }
  return { numbers, on, initial, memoryBytes, maxTokens, pack };
}

/** The adapter to start from. Rejects with EngineInputError where it is not of this rank, alpha and targets. */
async function readStart(directory: string, config: ModelConfig, { rank, alpha, targets }: TrainerOptions): Promise<ReadAdapter> {
  const found = await readAdapter(directory, config);
  const refuse = (what: string, got: number | string): never => {
    throw new EngineInputError(`Expected ${what} in the adapter of ${directory}, got ${got}`);
  };
  if (found.rank !== rank) refuse(`r ${rank}`, found.rank);
  if (found.alpha !== alpha) refuse(`lora_alpha ${alpha}`, found.alpha);
  if (found.scale !== alpha / rank) refuse('use_rslora false', 'true');
  const paths = adaptedModules(config, targets).map(({ path }) => path);
  const isSame = paths.length === found.tensors.length && found.tensors.every(({ path }, i) => path === paths[i]);
  if (!isSame) refuse(`target_modules ${JSON.stringify(targets.toSorted())}`, JSON.stringify(namesOf(found)));
  return found;
}

const namesOf = ({ tensors }: ReadAdapter): string[] => [...new Set(tensors.map(({ path }) => path.slice(path.lastIndexOf('.') + 1)))].toSorted();

function checkOptions({ rank, alpha, targets }: TrainerOptions): void {
  if (!(Number.isInteger(rank) && rank >= 1 && rank <= MAX_ADAPTER_RANK))
    throw new EngineInputError(`Expected the rank of an adapter to be a whole number from 1 to ${MAX_ADAPTER_RANK}, got ${rank}`);
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
