/** The weight files of a Hugging Face directory: one model.safetensors, or shards listed by an index. Opening reads only the headers. */
import type { FileHandle } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { openSafetensors, type SafetensorsHeader, SafetensorsError, type TensorEntry } from '../../files/safetensors.ts';
import { EngineInputError } from '../engine-errors.ts';
import { fileError, readJsonObject } from './json-file.ts';
import type { WeightTypes } from './model-layout.ts';
import type { WeightType } from './model-types.ts';
import { isObject } from '../../schemas/is-object.ts';

const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
/** The format's own limit. */
const MAX_HEADER_BYTES = 100_000_000;
const MAX_INDEX_BYTES = 2 ** 26;
const MAX_SHARDS = 1000;
const REMEDY = 'download the model again';

export interface StoredTensor {
  readonly path: string;
  readonly file: FileHandle;
  readonly entry: TensorEntry;
}

export class ModelFiles implements AsyncDisposable {
  readonly #directory: string;
  readonly #files: { readonly path: string; readonly file: FileHandle; readonly header: SafetensorsHeader }[] = [];
  readonly #tensors = new Map<string, StoredTensor>();

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Opens every file and reads its header. Rejects with EngineInputError. */
  static async open(directory: string): Promise<ModelFiles> {
    const files = new ModelFiles(directory);
    try {
      if (!(await files.#add(SINGLE, { isOptional: true }))) {
        for (const name of await shardNames(directory)) await files.#add(name, { isOptional: false });
      }
      return files;
    } catch (error) {
      await files[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Throws EngineInputError if the tensor is missing or has another type or shape. */
  find(name: string, shape: readonly number[]): StoredTensor {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) throw new EngineInputError(this.#missing(name));
    const got = tensor.entry.shape;
    if (got.length !== shape.length || got.some((size, i) => size !== shape[i])) {
      throw new EngineInputError(
        `By config.json ${name} must have shape [${shape.join(', ')}], got [${got.join(', ')}] in ${tensor.path}; ${REMEDY}`,
      );
    }
    return tensor;
  }

  /** The type in which the engine stores a tensor of the files; `float32` if it is missing. */
  weightType(name: string): WeightType {
    return this.#tensors.get(name)?.entry.dtype === 'BF16' ? 'bfloat16' : 'float32';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#files.map(({ file }) => file.close()));
  }

  async #add(name: string, { isOptional }: { readonly isOptional: boolean }): Promise<boolean> {
    const path = join(this.#directory, name);
    try {
      const opened = { path, ...(await openSafetensors(path, { maxHeaderBytes: MAX_HEADER_BYTES, otherTypes: 'list' })) };
      this.#files.push(opened);
      for (const entry of opened.header.tensors) this.#tensors.set(entry.name, { path, file: opened.file, entry });
      return true;
    } catch (cause) {
      if (isOptional && (cause as NodeJS.ErrnoException).code === 'ENOENT') return false;
      if (cause instanceof SafetensorsError)
        throw new EngineInputError(`${path} is not a valid safetensors file: ${cause.message}; ${REMEDY}`, { cause });
      throw fileError(path, cause, REMEDY);
    }
  }

  #missing(name: string): string {
    const other = this.#files.find(({ header }) => header.others.has(name));
    if (other !== undefined) {
      return `${name} must be F32, F16 or BF16, got ${other.header.others.get(name)} in ${other.path}; save the model in one of these types`;
    }
    return `The tensor ${name} is missing from the ${this.#tensors.size} tensors of ${this.#directory}; ${REMEDY}`;
  }
}

/** The types in which the engine stores a directory's tensors. Rejects with EngineInputError. */
export async function readWeightTypes(directory: string): Promise<WeightTypes> {
  await using files = await ModelFiles.open(directory);
  return (tensor) => files.weightType(tensor);
}

async function shardNames(directory: string): Promise<readonly string[]> {
  const path = join(directory, INDEX);
  const remedy = `a model has ${SINGLE} or shards with ${INDEX}; save it again with save_pretrained`;
  const { weight_map: map } = await readJsonObject(path, { maxBytes: MAX_INDEX_BYTES, remedy });
  const names = isObject(map) ? [...new Set(Object.values(map))] : [];
  const isFileName = (name: unknown): name is string => typeof name === 'string' && basename(name) === name && name.endsWith('.safetensors');
  if (names.length === 0 || names.length > MAX_SHARDS || !names.every(isFileName)) {
    throw new EngineInputError(`weight_map in ${path} must name 1 to ${MAX_SHARDS} safetensors files in its directory; ${REMEDY}`);
  }
  return names.toSorted();
}
