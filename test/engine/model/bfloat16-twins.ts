/** Twins: a model of random numbers whose files hold some tensors as bfloat16, and one whose files hold the same numbers as float32. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KernelsBuild } from '../../../src/engine/kernels/compile-kernels.ts';
import { ALL_FLOAT32, layOutModel } from '../../../src/engine/model/model-layout.ts';
import type { ModelWeights } from '../../../src/engine/model/model-types.ts';
import type { TensorDtype } from '../../../src/files/safetensors.ts';
import { tensor, type WrittenTensor } from '../../trainer/publisher/adapter-files.ts';
import { Workbench } from '../compute/any-model.ts';
import { hashNumbers } from '../compute/hash-numbers.ts';
import { TINY_CONFIG, writeWeights } from './tiny-model.ts';
import { loadModel, readModelConfig } from '../from-directory.ts';

export interface TwinWish {
  /** Set over TINY_CONFIG. */
  readonly config: Readonly<Record<string, unknown>>;
  /** In the files of the first twin. The second has float32 in place of bfloat16. */
  readonly dtypeOf: (name: string) => TensorDtype;
  /** Files of the first twin. */
  readonly shards: number;
}

export interface LoadedTwin {
  readonly bench: Workbench;
  readonly model: ModelWeights;
}

/** Both in memories of their own, below `folder`. */
export async function loadTwins(folder: string, build: KernelsBuild, wish: TwinWish): Promise<{ bfloat16: LoadedTwin; float32: LoadedTwin }> {
  const directories = { bfloat16: join(folder, 'bfloat16'), float32: join(folder, 'float32') };
  await writeTwins(directories, wish);
  const load = async (directory: string): Promise<LoadedTwin> => {
    const bench = new Workbench(build);
    const { memory, kernels } = bench;
    return { bench, model: await loadModel(directory, { memory, kernels, signal: AbortSignal.timeout(20_000) }) };
  };
  return { bfloat16: await load(directories.bfloat16), float32: await load(directories.float32) };
}

async function writeTwins(directories: Readonly<Record<'bfloat16' | 'float32', string>>, { config, dtypeOf, shards }: TwinWish): Promise<void> {
  for (const directory of Object.values(directories)) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...config }));
  }
  const tensors = new Map<string, WrittenTensor>();
  for (const { name, shape } of layOutModel(await readModelConfig(directories.bfloat16), ALL_FLOAT32, () => 0).tensors) {
    tensors.set(name, tensor(shape, someWeights(name, shape), dtypeOf(name)));
  }
  writeWeights(directories.bfloat16, tensors, shards);
  writeWeights(directories.float32, new Map(Array.from(tensors, ([name, one]) => [name, widened(one)])), 1);
}

function someWeights(name: string, shape: readonly number[]): Float32Array {
  const [outputs, inputs] = shape as readonly [number, number?];
  const [scale, shift] = inputs === undefined ? [0.3, 1] : [name.includes('embed') ? 1 : Math.sqrt(3 / inputs), 0];
  return Float32Array.from(hashNumbers(name, outputs * (inputs ?? 1)), (value) => value * scale + shift);
}

/** bfloat16 as float32; else as it is. */
function widened({ dtype, shape, bytes }: WrittenTensor): WrittenTensor {
  if (dtype !== 'BF16') return { dtype, shape, bytes };
  const bits = Uint32Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readUInt16LE(2 * i) << 16);
  return tensor(shape, new Float32Array(bits.buffer));
}
