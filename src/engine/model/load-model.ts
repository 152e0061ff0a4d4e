/** Loads a model's weights from a Hugging Face directory into the shared memory, packed for the kernels. Uses one small buffer and never reads a whole file at once. */
import { Arena, MAX_MEMORY_BYTES, type SharedMemory } from '../compute/memory.ts';
import { EngineInputError, MemoryLimitError } from '../engine-errors.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { throwIfAborted } from '../../core/abort.ts';
import type { ByteSource } from '../../files/byte-source.ts';
import { DTYPE_BYTES } from '../../files/safetensors.ts';
import { fileError } from './json-file.ts';
import { downloadAgain, ModelFiles, type StoredTensor } from './model-files.ts';
import { ALL_BFLOAT16, layOutModel, modelBytes, type TensorPlace } from './model-layout.ts';
import { type ModelConfig, type ModelWeights, WEIGHT_BYTES } from './model-types.ts';
import { readModelConfig } from './read-model-config.ts';
import { fillRotations } from './rotation-table.ts';
import { toFloat32 } from '../../files/tensor-numbers.ts';

export interface LoadModelOptions {
  readonly memory: SharedMemory;
  readonly kernels: Kernels;
  /** Longest sequence, in tokens, or a function that computes it from the model's own configuration and its bytes. @default the model's own */
  readonly maxModelLen?: number | ((own: ModelConfig, modelBytes: number) => number) | undefined;
  readonly signal: AbortSignal;
  /** Called after each tensor; counts bytes in the files. */
  readonly onProgress?: ((progress: { readonly loadedBytes: number; readonly totalBytes: number }) => void) | undefined;
}

/** Numbers in the row buffer: 4 MiB. For longer rows the buffer holds 8 of them. */
const STAGED_NUMBERS = 2 ** 20;
const STOPPED = 'Stopped while a model was loaded';

/**
 * `weights.config.maxPositions` is `maxModelLen`. Rejects with EngineInputError for an unsuitable directory, MemoryLimitError, before reading weights, for a model that
 * is too large, or CancelledError; then nothing stays allocated.
 */
export async function loadModel(source: ByteSource, { memory, kernels, maxModelLen, signal, onProgress }: LoadModelOptions): Promise<ModelWeights> {
  throwIfAborted(signal, STOPPED);
  const choosesLength = typeof maxModelLen === 'function';
  const own = await readModelConfig(source, { maxModelLen: choosesLength ? undefined : maxModelLen });
  checkLeastSize(own, memory);
  await using files = await ModelFiles.open(source);
  const types = (tensor: string) => files.weightType(tensor);
  const config = choosesLength ? { ...own, maxPositions: maxModelLen(own, modelBytes(own, types)) } : own;
  // Checks every name and shape before reading any numbers.
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

const VLLM = 'serve it with vLLM and pass its address with -b URL';
const gibOf = (bytes: number): string => (bytes / 2 ** 30).toFixed(1);
const fits = (bytes: number, memory: SharedMemory): boolean => memory.used + bytes + 4 * STAGED_NUMBERS < MAX_MEMORY_BYTES;

/** Checks the smallest possible size, before the files are opened. */
function checkLeastSize(config: ModelConfig, memory: SharedMemory): void {
  const least = modelBytes({ ...config, maxPositions: 1 }, ALL_BFLOAT16);
  if (fits(least, memory)) return;
  throw new MemoryLimitError(`${config.path} needs ${gibOf(least)} GiB even as bfloat16, but the embedded engine can address only 4 GiB; ${VLLM}`);
}

function checkSize(config: ModelConfig, bytes: number, memory: SharedMemory): void {
  if (fits(bytes, memory)) return;
  const remedy = fits(modelBytes(config, ALL_BFLOAT16), memory) ? `save its matrices as bfloat16, 2 bytes per weight instead of 4, or ${VLLM}` : VLLM;
  throw new MemoryLimitError(`${config.path} needs ${gibOf(bytes)} GiB, but the embedded engine can address only 4 GiB; ${remedy}`);
}

/** Reads one tensor at a time through its buffers, and checks the signal before each fill. */
class TensorReader implements Disposable {
  readonly #memory: SharedMemory;
  readonly #kernels: Kernels;
  readonly #signal: AbortSignal;
  readonly #staging: { readonly pointer: number; readonly bytes: number };
  readonly #numbers: Float32Array;
  readonly #bytes: Uint8Array;

  constructor(memory: SharedMemory, kernels: Kernels, tensors: readonly TensorPlace[], signal: AbortSignal) {
    this.#memory = memory;
    this.#kernels = kernels;
    this.#signal = signal;
    const count = Math.max(STAGED_NUMBERS, ...tensors.map(({ shape }) => 8 * shape.at(-1)!));
    this.#staging = memory.allocate(4 * count);
    this.#numbers = new Float32Array(memory.memory.buffer, this.#staging.pointer, count);
    this.#bytes = new Uint8Array(4 * count);
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

  /** Reads `count` numbers of a tensor, beginning with number `first`, as float32. */
  async #stage({ path, file, entry }: StoredTensor, first: number, count: number): Promise<void> {
    throwIfAborted(this.#signal, STOPPED);
    const size = DTYPE_BYTES[entry.dtype];
    let bytesRead = 0;
    try {
      while (bytesRead < count * size) {
        const read = await file.read(this.#bytes, bytesRead, count * size - bytesRead, entry.start + first * size + bytesRead);
        if (read.bytesRead === 0) throw new EngineInputError(`${path} ended within ${entry.name}; the file may have changed while it was read`);
        bytesRead += read.bytesRead;
      }
    } catch (cause) {
      throw cause instanceof EngineInputError ? cause : fileError(path, cause, downloadAgain(path));
    }
    toFloat32(this.#bytes, entry.dtype, this.#numbers, count);
  }

  #refuse({ path, entry }: StoredTensor, first: number, count: number): never {
    const at = this.#numbers.subarray(0, count).findIndex((number) => !Number.isFinite(number));
    throw new EngineInputError(
      `${entry.name} in ${path} contains a number that is not finite: ${this.#numbers[at]} at ${first + at}; ${downloadAgain(path)}`,
    );
  }

  [Symbol.dispose](): void {
    this.#memory.free(this.#staging);
  }
}
