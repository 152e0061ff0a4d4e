/** The weight files of a Hugging Face directory: one model.safetensors, or shards listed by an index. Opening reads only the headers. */
import type { ByteFile, ByteSource } from '../../files/byte-source.ts';
import { readSafetensorsHeader, type SafetensorsHeader, SafetensorsError, type TensorEntry } from '../../files/safetensors.ts';
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

/** The remedy for damaged weights. A hub's cache would give the same file again, so its folder must go first. */
export function downloadAgain(path: string): string {
  const [, folder] = /^(.*[/\\]models--[^/\\]+)[/\\]snapshots[/\\]/.exec(path) ?? [];
  return folder === undefined ? 'download the model again' : `delete the folder ${folder} and download the model again`;
}

export interface StoredTensor {
  readonly path: string;
  readonly file: ByteFile;
  readonly entry: TensorEntry;
}

export class ModelFiles implements AsyncDisposable {
  readonly #source: ByteSource;
  readonly #files: { readonly path: string; readonly file: ByteFile; readonly header: SafetensorsHeader }[] = [];
  readonly #tensors = new Map<string, StoredTensor>();

  private constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Opens every file and reads its header. Rejects with EngineInputError. */
  static async open(source: ByteSource): Promise<ModelFiles> {
    const files = new ModelFiles(source);
    try {
      if (!(await files.#add(SINGLE, { isOptional: true }))) {
        for (const name of await shardNames(source)) await files.#add(name, { isOptional: false });
      }
      return files;
    } catch (error) {
      await files[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Throws EngineInputError if the tensor is missing or has another type or shape. */
  find(name: string, shape: readonly number[]): StoredTensor {
    const tensor = this.#stored(name);
    if (tensor === undefined) throw new EngineInputError(this.#missing(name));
    const got = tensor.entry.shape;
    if (got.length !== shape.length || got.some((size, i) => size !== shape[i])) {
      throw new EngineInputError(
        `By config.json ${name} must have shape [${shape.join(', ')}], got [${got.join(', ')}] in ${tensor.path}; ${downloadAgain(tensor.path)}`,
      );
    }
    return tensor;
  }

  /** The type in which the engine stores a tensor of the files; `float32` if it is missing. */
  weightType(name: string): WeightType {
    return this.#stored(name)?.entry.dtype === 'BF16' ? 'bfloat16' : 'float32';
  }

  /** Qwen3-Embedding was saved without its head, and its names begin inside `model`. */
  #stored(name: string): StoredTensor | undefined {
    return this.#tensors.get(name) ?? this.#tensors.get(name.replace(/^model\./, ''));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#files.map(({ file }) => file.close()));
  }

  async #add(name: string, { isOptional }: { readonly isOptional: boolean }): Promise<boolean> {
    const path = this.#source.pathOf(name);
    try {
      const { file, header } = await openTensors(this.#source, name);
      this.#files.push({ path, file, header });
      for (const entry of header.tensors) this.#tensors.set(entry.name, { path, file, entry });
      return true;
    } catch (cause) {
      if (isOptional && (cause as NodeJS.ErrnoException).code === 'ENOENT') return false;
      if (cause instanceof SafetensorsError)
        throw new EngineInputError(`${path} is not a valid safetensors file: ${cause.message}; ${downloadAgain(path)}`, { cause });
      throw fileError(path, cause, downloadAgain(path));
    }
  }

  #missing(name: string): string {
    const other = this.#files.find(({ header }) => header.others.has(name));
    if (other !== undefined) {
      return `${name} must be F32, F16 or BF16, got ${other.header.others.get(name)} in ${other.path}; save the model in one of these types`;
    }
    return `The tensor ${name} is missing from the ${this.#tensors.size} tensors of ${this.#source.path}; ${downloadAgain(this.#source.path)}`;
  }
}

/** The types in which the engine stores a directory's tensors. Rejects with EngineInputError. */
export async function readWeightTypes(source: ByteSource): Promise<WeightTypes> {
  await using files = await ModelFiles.open(source);
  return (tensor) => files.weightType(tensor);
}

async function openTensors(source: ByteSource, name: string): Promise<{ readonly file: ByteFile; readonly header: SafetensorsHeader }> {
  const file = await source.open(name);
  try {
    return { file, header: await readSafetensorsHeader(file, { maxHeaderBytes: MAX_HEADER_BYTES, otherTypes: 'list' }) };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function shardNames(source: ByteSource): Promise<readonly string[]> {
  const path = source.pathOf(INDEX);
  const remedy = `a model has ${SINGLE} or shards with ${INDEX}; save it again with save_pretrained`;
  const { weight_map: map } = await readJsonObject(source, INDEX, { maxBytes: MAX_INDEX_BYTES, remedy });
  const names = isObject(map) ? [...new Set(Object.values(map))] : [];
  const isFileName = (name: unknown): name is string => typeof name === 'string' && !/[/\\]/.test(name) && name.endsWith('.safetensors');
  if (names.length === 0 || names.length > MAX_SHARDS || !names.every(isFileName)) {
    throw new EngineInputError(`weight_map in ${path} must name 1 to ${MAX_SHARDS} safetensors files in its directory; ${downloadAgain(path)}`);
  }
  return names.toSorted();
}
