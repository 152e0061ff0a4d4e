/** Checks the options of a trainer and allocates its memory: all of it, or nothing. */
import { CancelledError } from '../../core/errors.ts';
import { adaptedModules } from '../adapters/adapted-modules.ts';
import { allocateAdapter, packAdapter, placeAdapter, type PlacedAdapter } from '../adapters/place-adapter.ts';
import { type ReadAdapter, readAdapter } from '../adapters/read-adapter.ts';
import { assertStarts } from '../adapters/start-adapter.ts';
import { EngineInputError, MemoryLimitError } from '../engine-errors.ts';
import type { EngineHost } from '../engine-host.ts';
import type { SharedMemory } from '../compute/memory.ts';
import { trainingBytes } from '../compute/training-layout.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { countText } from '../../core/count-text.ts';
import type { ByteSource } from '../../files/byte-source.ts';
import { ADAPTED, type AdapterWeights, MAX_ADAPTER_RANK, type ModelConfig, type ModelWeights } from '../model/model-types.ts';
import type { ServedAdapters } from '../served-adapters.ts';
import type { ActivationRoom, RoomTenant } from './activation-room.ts';
import { AdapterNumbers } from './adapter-numbers.ts';
import { mostTokens } from './batch-bytes.ts';
import { layOutNumbers } from './trainer-numbers.ts';
import type { TrainerOptions } from './trainer-types.ts';
import type { TrainingAnswer, TrainingCommand } from './training-commands.ts';

/** The calls to the threads that the trainer needs. */
interface TrainingThreads {
  readonly size: number;
  /** Rejects if the engine is lost or closed. */
  callTraining(thread: number, command: TrainingCommand): Promise<TrainingAnswer>;
}

export interface TrainerParts {
  /** Opens the directory of an adapter to start from. */
  readonly host: Pick<EngineHost, 'folder'>;
  readonly threads: TrainingThreads;
  readonly memory: SharedMemory;
  /** The main thread's kernels. */
  readonly kernels: Kernels;
  readonly model: ModelWeights;
  /** The adapters that requests can name. */
  readonly adapters: Pick<ServedAdapters, 'add'>;
  /** Shared by the trainers of an engine. */
  readonly room: ActivationRoom;
}

export interface TrainerState {
  readonly numbers: AdapterNumbers;
  /** The adapter being trained. */
  readonly on: PlacedAdapter;
  /** The adapter at the start; null if that is the base model. */
  readonly initial: AdapterWeights | null;
  readonly tenant: RoomTenant;
  readonly maxTokens: number;
  /** Repacks `on`; call it after the parameters have changed. */
  pack(): void;
  free(): void;
}

/** Activations of all threads together, unless a sequence of `LONG_TOKENS` needs more. */
const DEFAULT_MEMORY_BYTES = 192 * 2 ** 20;
const LONG_TOKENS = 2048;
/** Share of the remaining memory that is kept for adapters loaded later. */
const SPARED_SHARE = 0.125;
/** No request uses these ids, so they never appear in a prefix cache. */
const ON_ID = -1;
const INITIAL_ID = -2;

/** Rejects with EngineInputError, MemoryLimitError or CancelledError. */
export async function openTrainer(parts: TrainerParts, options: TrainerOptions): Promise<TrainerState> {
  checkOptions(options);
  const start = options.initial === null ? null : await readStart(parts.host.folder(options.initial), parts.model.config, options);
  if (options.signal.aborted) throw new CancelledError('Stopped while a trainer was created', { cause: options.signal.reason });
  const frees: (() => void)[] = [];
  const free = () => frees.toReversed().forEach((freeOne) => freeOne());
  try {
    return { ...setUp(parts, options, start, (freeOne) => frees.push(freeOne)), free };
  } catch (error) {
    free();
    const { tenants } = parts.room;
    if (!(error instanceof MemoryLimitError) || tenants === 0) throw error;
    throw new MemoryLimitError(`${error.message} The engine has other trainers (${countText(tenants)}): close one that is not needed.`, {
      cause: error,
    });
  }
}

function setUp(
  { threads, memory, kernels, model: { config }, room }: TrainerParts,
  options: TrainerOptions,
  start: ReadAdapter | null,
  onFree: (free: () => void) => void,
): Omit<TrainerState, 'free'> {
  const { rank, alpha, targets, seed } = options;
  const modules = adaptedModules(config, targets);
  const numbers = new AdapterNumbers(memory, layOutNumbers(modules, rank), threads.size);
  onFree(() => numbers.free());
  const keep = (placed: PlacedAdapter): PlacedAdapter => {
    onFree(() => memory.free(placed.region));
    return placed;
  };
  const on = keep(allocateAdapter(modules, { memory, id: ON_ID, rank, config }));
  const initial = start === null ? null : keep(placeAdapter(start, { memory, kernels, id: INITIAL_ID, config })).weights;
  const rows = numbers.matrices(numbers.parameters, { rank, layers: config.layers });
  const pack = () => packAdapter(on.weights, rows, { memory: memory.memory, kernels, rank, scale: alpha / rank });
  if (start === null) numbers.draw(seed);
  else numbers.writeParameters(start.tensors);
  pack();
  const tenant = room.enter(activationBytes(config, room, options));
  onFree(() => room.leave(tenant));
  const maxTokens = mostTokens(config, tenant.limitBytes, threads.size, options);
  if (maxTokens < 2) {
    throw new MemoryLimitError(
      `${megabytes(tenant.limitBytes)} MB cannot hold the activations of two tokens. Allow more memory, shorten the longest sequence, or use a smaller model.`,
    );
  }
  return { numbers, on, initial, tenant, maxTokens, pack };
}

/** The adapter to start from. Rejects with EngineInputError if its rank, scale, targets or layers differ. */
async function readStart(source: ByteSource, config: ModelConfig, { rank, alpha, targets }: TrainerOptions): Promise<ReadAdapter> {
  await assertStarts(source, { rank, alpha, targets, layers: config.layers }, { maxRank: MAX_ADAPTER_RANK });
  return readAdapter(source, config);
}

function checkOptions({ rank, alpha, targets }: TrainerOptions): void {
  if (!(Number.isInteger(rank) && rank >= 1 && rank <= MAX_ADAPTER_RANK))
    throw new EngineInputError(`The rank of an adapter must be a whole number from 1 to ${MAX_ADAPTER_RANK}, got ${rank}.`);
  if (!(Number.isFinite(alpha) && alpha > 0)) throw new EngineInputError(`The alpha of an adapter must be above 0, got ${alpha}.`);
  const wrong = targets.find((target) => !ADAPTED.includes(target));
  if (wrong !== undefined || targets.length === 0) {
    const remedy = 'This base has no other linear layers.';
    throw new EngineInputError(`lora.targets must be among ${ADAPTED.toSorted().join(', ')}, got ${wrong ?? 'none'}. ${remedy}`, {
      code: 'unsupported',
    });
  }
}

/** Limit for this trainer's activations. Throws MemoryLimitError if the other trainers could no longer have theirs. */
function activationBytes(config: ModelConfig, { reachableBytes, promisedBytes }: ActivationRoom, options: TrainerOptions): number {
  if (reachableBytes < promisedBytes) {
    const [left, promised] = [reachableBytes, promisedBytes].map(megabytes);
    const remedy = 'Choose a smaller rank or fewer targets.';
    throw new MemoryLimitError(`This trainer would leave ${left} MB for activations, but an earlier one may need ${promised} MB. ${remedy}`);
  }
  const { rank, checkpointing, memoryBytes } = options;
  const longest = Math.min(config.maxPositions, LONG_TOKENS);
  const wanted = memoryBytes ?? Math.max(DEFAULT_MEMORY_BYTES, trainingBytes(config, { tokens: longest, sequences: 1, rank, checkpointing }));
  return Math.floor(Math.min(wanted, reachableBytes * (1 - SPARED_SHARE)));
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);
