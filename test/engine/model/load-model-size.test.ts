/** Models of real sizes whose files hold only a header and a hole: they are refused before a number is read. */
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ALL_FLOAT32, layOutModel } from '../../../src/engine/model/model-layout.ts';
import { DTYPE_BYTES, type TensorDtype } from '../../../src/files/safetensors.ts';
import { headerBytes, temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { TINY_CONFIG } from './tiny-model.ts';
import { loadModel, readModelConfig } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const { module } = loadKernelsModule();
const { signal } = new AbortController();
let count = 0;

interface Sizes {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
}

const QWEN3 = { vocab_size: 151_936, num_key_value_heads: 8, head_dim: 128, max_position_embeddings: 40_960 };
const QWEN3_4B: Sizes = { hidden_size: 2560, intermediate_size: 9728, num_hidden_layers: 36, num_attention_heads: 32 };
const QWEN3_17B: Sizes = { hidden_size: 2048, intermediate_size: 6144, num_hidden_layers: 28, num_attention_heads: 16 };

function writeConfig(sizes: Sizes): string {
  const directory = join(folder.path, `m${count++}`);
  mkdirSync(directory);
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...QWEN3, ...sizes, tie_word_embeddings: true }));
  return directory;
}

async function writeHollow(directory: string, dtypeOf: (name: string) => TensorDtype): Promise<void> {
  let end = 0;
  const header: Record<string, unknown> = {};
  for (const { name, shape } of layOutModel(await readModelConfig(directory), ALL_FLOAT32, () => 0).tensors) {
    const dtype = dtypeOf(name);
    const bytes = shape.reduce((product, size) => product * size, DTYPE_BYTES[dtype]);
    header[name] = { dtype, shape, data_offsets: [end, (end += bytes)] };
  }
  const path = join(directory, 'model.safetensors');
  const start = headerBytes(header);
  writeFileSync(path, start);
  truncateSync(path, start.length + end);
}

describe('loadModel, of a model that is too large', () => {
  const refusal = async (directory: string): Promise<unknown> => {
    const memory = new SharedMemory();
    const kernels = instantiateKernels(module, memory.memory);
    const failure = await loadModel(directory, { memory, kernels, signal }).catch((error: unknown) => error);
    expect(memory.used).toBe(0);
    expect(failure).toBeInstanceOf(MemoryLimitError);
    return (failure as Error).message;
  };

  it('refuses it before it looks for weights when even bfloat16 exceeds 4 GiB', async () => {
    expect(await refusal(writeConfig(QWEN3_4B))).toMatch(
      / needs 7\.5 GiB even as bfloat16, but the embedded engine can address only 4 GiB; serve it with vLLM and pass its address with -b URL$/,
    );
  });

  it.each(['F16', 'F32'] as const)('says what would make one of %s matrices fit', async (dtype) => {
    const directory = writeConfig(QWEN3_17B);
    await writeHollow(directory, () => dtype);
    expect(await refusal(directory)).toMatch(
      / needs 6\.4 GiB, but .* only 4 GiB; save its matrices as bfloat16, 2 bytes per weight instead of 4, or serve it with vLLM/,
    );
  });

  it('counts each matrix by how the files hold it', async () => {
    const directory = writeConfig(QWEN3_17B);
    await writeHollow(directory, (name) => (name.includes('embed') ? 'F32' : name.includes('down_proj') ? 'F16' : 'BF16'));
    expect(await refusal(directory)).toMatch(/ needs 4\.5 GiB, .*; save its matrices as bfloat16/);
  });
});
