/** A model's weights, from the files of a Hugging Face directory into the shared memory, packed for the kernels. Numbers pass through one small buffer, never a whole file. */
import { Arena, MAX_MEMORY_BYTES, type SharedMemory } from '../compute/memory.ts';
import { EngineInputError, MemoryLimitError } from '../engine-errors.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { CancelledError } from '../../core/errors.ts';
import { DTYPE_BYTES } from '../../files/safetensors.ts';
import { fileError } from './json-file.ts';
import { ModelFiles, type StoredTensor } from './model-files.ts';
import { ALL_BFLOAT16, layOutModel, modelBytes, type TensorPlace } from './model-layout.ts';
import { type ModelConfig, type ModelWeights, WEIGHT_BYTES } from './model-types.ts';
import { readModelConfig } from './read-model-config.ts';
import { fillRotations } from './rotation-table.ts';
import { toFloat32 } from './tensor-numbers.ts';

export interface LoadModelOptions {
  readonly memory: SharedMemory;
  readonly kernels: Kernels;
  /** Longest sequence, in tokens, or what to make of the model's own and the bytes that it takes. @default the model's own */
  readonly maxModelLen?: number | ((own: ModelConfig, modelBytes: number) => number) | undefined;
  readonly signal: AbortSignal;
  /** After each tensor; of its bytes in the files. */
  readonly onProgress?: ((progress: { readonly loadedBytes: number; readonly totalBytes: number }) => void) | undefined;
}

/** Numbers in the buffer that rows pass through: 4 MiB. A matrix with longer rows gets room for 8 of them. */
const STAGED_NUMBERS = 2 ** 20;

/**
 * `weights.config.maxPositions` is `maxModelLen`. Rejects with EngineInputError where the directory holds no such model, MemoryLimitError before anything is read where it is
 * too large, or CancelledError; then nothing stays allocated.
 */
export async function loadModel(directory: string, { memory, kernels, maxModelLen, signal, onProgress }: LoadModelOptions): Promise<ModelWeights> {
  checkAborted(signal);
  const choosesLength = typeof maxModelLen === 'function';
  const own = await readModelConfig(directory, { maxModelLen: choosesLength ? undefined : maxModelLen });
  checkLeastSize(own, memory);
  await using files = await ModelFiles.open(directory);
  const types = (tensor: string) => files.weightType(tensor);
  const config = choosesLength ? { ...own, maxPositions: maxModelLen(own, modelBytes(own, types)) } : own;
  // Every name and shape before the first number.
  const stored = layOutModel(config, types, () => 0).tensors.map(({ name, shape }) => files.find(name, shape));
  const bytes = modelBytes(config, types);
  checkSize(config, bytes, memory);
  const region = memory.allocate(bytes);
  try {
    const arena = new Arena(region);
    const { weights, tensors } = layOutModel(config, types, (count) => arena.take(count));
    using reader = new TensorReader(memory, kernels, tensors, signal);
    const sizes = stored.map(({ entry }) => entry.end - entry.start);
    const totalBytes = sizes.reduce((sum, size) => sum + size, 0);
    let loadedBytes = 0;
    for (const [i, place] of tensors.entries()) {
      await reader.read(stored[i]!, place);
      loadedBytes += sizes[i]!;
      onProgress?.({ loadedBytes, totalBytes });
    }
    fillRotations(new Float32Array(memory.memory.buffer, weights.rotations, config.maxPositions * config.headDim), config);
    return weights;
  } catch (error) {
    memory.free(region);
    throw error;
  }
}

const VLLM = 'serve it with vLLM and name its address with -b URL';
const gibOf = (bytes: number): string => (bytes / 2 ** 30).toFixed(1);
const fits = (bytes: number, memory: SharedMemory): boolean => memory.used + bytes + 4 * STAGED_NUMBERS < MAX_MEMORY_BYTES;

/** Whatever the files hold. */
function checkLeastSize(config: ModelConfig, memory: SharedMemory): void {
  const least = modelBytes({ ...config, maxPositions: 1 }, ALL_BFLOAT16);
  if (fits(least, memory)) return;
  throw new MemoryLimitError(
    `Expected a model of less than 4 GiB, which is what the embedded engine addresses, got ${gibOf(least)} GiB as bfloat16 for ${config.path}; ${VLLM}`,
  );
}

function checkSize(config: ModelConfig, bytes: number, memory: SharedMemory): void {
  if (fits(bytes, memory)) return;
  const remedy = fits(modelBytes(config, ALL_BFLOAT16), memory) ? `save its matrices as bfloat16, 2 bytes a weight instead of 4, or ${VLLM}` : VLLM;
  throw new MemoryLimitError(
    `Expected a model of less than 4 GiB, which is what the embedded engine addresses, got ${gibOf(bytes)} GiB for ${config.path}; ${remedy}`,
  );
}

function checkAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new CancelledError('Stopped while a model was loaded', { cause: signal.reason });
}

/** Brings one tensor at a time to its place. Holds the buffers that it passes through; a signal is looked at between two fills of them. */
class TensorReader implements Disposable {
  readonly #memory: SharedMemory;
  readonly #kernels: Kernels;
  readonly #signal: AbortSignal;
  readonly #staging: { readonly pointer: number; readonly bytes: number };
  readonly #numbers: Float32Array;
  readonly #bytes: Buffer;

  constructor(memory: SharedMemory, kernels: Kernels, tensors: readonly TensorPlace[], signal: AbortSignal) {
    this.#memory = memory;
    this.#kernels = kernels;
    this.#signal = signal;
    const count = Math.max(STAGED_NUMBERS, ...tensors.map(({ shape }) => 8 * shape.at(-1)!));
    this.#staging = memory.allocate(4 * count);
    this.#numbers = new Float32Array(memory.memory.buffer, this.#staging.pointer, count);
    this.#bytes = Buffer.alloc(4 * count);
  }

  async read(stored: StoredTensor, { shape, pointer, type }: TensorPlace): Promise<void> {
    const inputs = shape.at(-1)!;
    const outputs = shape.length === 1 ? 1 : shape[0]!;
    const most = Math.floor(this.#numbers.length / inputs / 8) * 8;
    for (let first = 0; first < outputs; first += most) {
      const rows = Math.min(most, outputs - first);
      await this.#stage(stored, first * inputs, rows * inputs);
      if (this.#kernels.allFinite(this.#staging.pointer, rows * inputs) !== 1) this.#refuse(stored, first * inputs, rows * inputs);
      const target = pointer + WEIGHT_BYTES[type] * first * inputs;
      if (shape.length === 1) new Float32Array(this.#memory.memory.buffer, target, inputs).set(this.#numbers.subarray(0, inputs));
      else if (type === 'float32') this.#kernels.pack(this.#staging.pointer, inputs, target, inputs, rows, 1);
      else this.#kernels.packBfloat16(this.#staging.pointer, inputs, target, inputs, rows, 1);
    }
  }

  /** `count` numbers of a tensor from number `first` on, as float32. */
  async #stage({ path, file, entry }: StoredTensor, first: number, count: number): Promise<void> {
    checkAborted(this.#signal);
    const size = DTYPE_BYTES[entry.dtype];
    let bytesRead = 0;
    try {
      while (bytesRead < count * size) {
        const read = await file.read(this.#bytes, bytesRead, count * size - bytesRead, entry.start + first * size + bytesRead);
        if (read.bytesRead === 0)
          throw new EngineInputError(`Expected ${entry.name} in ${path} to be whole, the file ended; was it changed while it was read?`);
        bytesRead += read.bytesRead;
      }
    } catch (cause) {
      throw cause instanceof EngineInputError ? cause : fileError(path, cause, 'download the model again');
    }
    toFloat32(this.#bytes, entry.dtype, this.#numbers, count);
  }

  #refuse({ path, entry }: StoredTensor, first: number, count: number): never {
    const at = this.#numbers.subarray(0, count).findIndex((number) => !Number.isFinite(number));
    throw new EngineInputError(
      `Expected finite numbers in ${entry.name} of ${path}, got ${this.#numbers[at]} at ${first + at}; download the model again`,
    );
  }

  [Symbol.dispose](): void {
    this.#memory.free(this.#staging);
  }
}
