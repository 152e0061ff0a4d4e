/**
 * Vectors of pictures on disk: `<folder>/<digest of the model>/<sha256 of the picture>.safetensors`, one tensor `vectors` [rows, dim]. A file that cannot be read
 * counts as missing, so that a torn file is made again.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { replaceFile } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { openSafetensors } from '../../files/open-safetensors.ts';
import { readTensorBytes } from '../../files/safetensors.ts';
import { type TokenVectors, VECTOR_BYTES, vectorsFrom, type VectorType } from './token-vectors.ts';

const DTYPES = { float16: 'F16', float32: 'F32' } as const;

export class VectorFiles {
  readonly #folder: string;
  readonly #identity: string;

  /** `identity`: of the model that makes the vectors. Creates the folder; throws the system's error. */
  constructor(folder: string, identity: string) {
    this.#folder = join(folder, createHash('sha256').update(identity).digest('hex').slice(0, 16));
    this.#identity = identity;
    makeFolder(this.#folder);
  }

  /** The vectors of a picture; null if there are none that can be read. */
  async read(sha256: string): Promise<TokenVectors | null> {
    const opened = await openSafetensors(this.#path(sha256)).catch(() => null);
    if (opened === null) return null;
    await using file = opened.file;
    const [tensor] = opened.header.tensors;
    const [rows, dim] = tensor?.shape ?? [];
    const type: VectorType = tensor?.dtype === 'F32' ? 'float32' : 'float16';
    if (tensor?.name !== 'vectors' || tensor.shape.length !== 2 || tensor.dtype !== DTYPES[type] || !rows || !dim) return null;
    const bytes = new Uint8Array(tensor.end - tensor.start);
    try {
      await readTensorBytes(file, bytes, tensor.start);
    } catch {
      return null;
    }
    return vectorsFrom(bytes, { rows, dim, type });
  }

  /** Throws ResultsError if the file cannot be written. */
  async write(sha256: string, { rows, dim, values }: TokenVectors): Promise<void> {
    const type: VectorType = values instanceof Float32Array ? 'float32' : 'float16';
    const header = Buffer.from(
      JSON.stringify({
        __metadata__: { model: this.#identity, picture: sha256 },
        vectors: { dtype: DTYPES[type], shape: [rows, dim], data_offsets: [0, rows * dim * VECTOR_BYTES[type]] },
      }),
    );
    // The numbers begin at a multiple of their size.
    const padded = Buffer.concat([header, Buffer.alloc((8 - (header.length % 8)) % 8, ' ')]);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(padded.length));
    await replaceFile(this.#path(sha256), async (write) => {
      await write(Buffer.concat([length, padded]));
      await write(Buffer.from(values.buffer as ArrayBuffer, values.byteOffset, values.byteLength));
    });
  }

  #path(sha256: string): string {
    return join(this.#folder, `${sha256}.safetensors`);
  }
}
