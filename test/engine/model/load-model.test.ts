import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../../src/core/errors.ts';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { gatherEmbeddings } from '../../../src/engine/compute/weight-products.ts';
import { EngineInputError } from '../../../src/engine/engine-errors.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ALL_BFLOAT16, ALL_FLOAT32, modelBytes } from '../../../src/engine/model/model-layout.ts';
import type { ModelConfig, ModelWeights, WeightMatrix } from '../../../src/engine/model/model-types.ts';
import { openSafetensors } from '../../../src/files/open-safetensors.ts';
import { temporaryFolder, tensor, type WrittenTensor } from '../../trainer/publisher/adapter-files.ts';
import { TINY_CONFIG, writeTinyModel } from './tiny-model.ts';
import { loadModel, readModelConfig, readWeightTypes } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const { module } = loadKernelsModule();
const signal = new AbortController().signal;
let count = 0;
const newDirectory = () => join(folder.path, `m${count++}`);

function engineMemory() {
  const memory = new SharedMemory();
  return { memory, kernels: instantiateKernels(module, memory.memory) };
}

/** Loads a model and gives every weight back under the files' names, row-major. */
async function loadAndUnpack(directory: string): Promise<{ weights: ModelWeights; numbers: Map<string, Float32Array> }> {
  const { memory, kernels } = engineMemory();
  const weights = await loadModel(directory, { memory, kernels, signal });
  const { hiddenSize: hidden, intermediateSize: inner, heads, kvHeads, headDim } = weights.config;
  const numbers = new Map<string, Float32Array>();
  const vector = (name: string, pointer: number, size: number) => numbers.set(name, new Float32Array(memory.memory.buffer, pointer, size).slice());
  const rows = (name: string, matrix: WeightMatrix, first: number, outputs: number) => {
    const out = memory.allocate(outputs * matrix.inputs * 4);
    const ids = memory.allocate(outputs * 4);
    new Int32Array(memory.memory.buffer, ids.pointer, outputs).forEach((_, i, all) => (all[i] = first + i));
    gatherEmbeddings(kernels, matrix, ids.pointer, out.pointer, outputs);
    vector(name, out.pointer, outputs * matrix.inputs);
    memory.free(ids);
    memory.free(out);
  };
  const [q, kv] = [heads * headDim, kvHeads * headDim];
  rows('model.embed_tokens.weight', weights.embedding, 0, weights.embedding.outputs);
  if (!weights.config.tiedEmbeddings) rows('lm_head.weight', weights.head, 0, weights.head.outputs);
  vector('model.norm.weight', weights.finalNorm, hidden);
  for (const [i, layer] of weights.layers.entries()) {
    const path = `model.layers.${i}`;
    vector(`${path}.input_layernorm.weight`, layer.inputNorm, hidden);
    vector(`${path}.post_attention_layernorm.weight`, layer.postNorm, hidden);
    vector(`${path}.self_attn.q_norm.weight`, layer.queryNorm, headDim);
    vector(`${path}.self_attn.k_norm.weight`, layer.keyNorm, headDim);
    rows(`${path}.self_attn.q_proj.weight`, layer.qkv, 0, q);
    rows(`${path}.self_attn.k_proj.weight`, layer.qkv, q, kv);
    rows(`${path}.self_attn.v_proj.weight`, layer.qkv, q + kv, kv);
    rows(`${path}.self_attn.o_proj.weight`, layer.output, 0, hidden);
    rows(`${path}.mlp.gate_proj.weight`, layer.gateUp, 0, inner);
    rows(`${path}.mlp.up_proj.weight`, layer.gateUp, inner, inner);
    rows(`${path}.mlp.down_proj.weight`, layer.down, 0, hidden);
  }
  return { weights, numbers };
}

/** What a written tensor holds, as float32. */
function numbersOf({ dtype, bytes }: WrittenTensor): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const halves = Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readUInt16LE(2 * i));
  if (dtype === 'BF16') return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  return Float32Array.from(
    halves,
    (half) => (half >> 15 ? -1 : 1) * (1 + (half & 1023) / 1024) * 2 ** (((half >> 10) & 31) - 15) * (half & 0x7fff ? 1 : 0),
  );
}

describe('loadModel', () => {
  it.each(['models/nano-base', 'test/models/nano-base'])('brings every tensor of %s to its place', async (path) => {
    const directory = join(import.meta.dirname, '../../..', path);
    const { numbers, weights } = await loadAndUnpack(directory);
    const { file, header } = await openSafetensors(join(directory, 'model.safetensors'));
    await using _ = file;
    expect(numbers.size).toBe(header.tensors.length);
    for (const { name, start, end } of header.tensors) {
      const bytes = Buffer.alloc(end - start);
      await file.read(bytes, 0, bytes.length, start);
      expect({ name, difference: Buffer.compare(Buffer.from(numbers.get(name)!.buffer), bytes) }).toEqual({ name, difference: 0 });
    }
    expect(weights.head).toEqual(weights.embedding);
  });

  const kinds = [
    ['F32', 1],
    ['BF16', 1],
    ['F16', 1],
    ['F32', 3],
    ['BF16', 2],
  ] as const;
  it.each(kinds)('reads %s numbers of a model in %i files, with a head of its own', async (dtype, shards) => {
    const { directory, tensors } = writeTinyModel(newDirectory(), { dtype, shards });
    const { numbers, weights } = await loadAndUnpack(directory);
    expect([...numbers.keys()].toSorted()).toEqual([...tensors.keys()].toSorted());
    for (const [name, one] of tensors) expect([name, numbers.get(name)]).toEqual([name, numbersOf(one)]);
    expect(weights.head.pointer).not.toBe(weights.embedding.pointer);
  });

  it('passes a matrix through its buffer in pieces', async () => {
    const [outputs, inputs] = [70_003, 16];
    const values = Float32Array.from({ length: outputs * inputs }, (_, i) => i);
    const edit = (tensors: Map<string, WrittenTensor>) =>
      tensors.set('lm_head.weight', tensor([outputs, inputs], values)).set('model.embed_tokens.weight', tensor([outputs, inputs], values));
    const { directory } = writeTinyModel(newDirectory(), { edit, config: { vocab_size: outputs } });
    const { numbers } = await loadAndUnpack(directory);
    expect(Buffer.compare(Buffer.from(numbers.get('lm_head.weight')!.buffer), Buffer.from(values.buffer))).toBe(0);
  });

  it('fills the last panel of the vocabulary with zeros', async () => {
    const { directory } = writeTinyModel(newDirectory());
    const { memory, kernels } = engineMemory();
    const used = memory.allocate(2 ** 20);
    new Float32Array(memory.memory.buffer, used.pointer, 2 ** 18).fill(NaN);
    memory.free(used);
    const { head } = await loadModel(directory, { memory, kernels, signal });
    const panel = new Float32Array(memory.memory.buffer, head.pointer + 2 * head.inputs * 8 * 4, head.inputs * 8);
    const beyond = panel.filter((_, i) => i % 8 >= TINY_CONFIG.vocab_size - 16);
    expect(beyond.length).toBe(3 * head.inputs);
    expect(beyond.every((number) => number === 0)).toBe(true);
  });

  it.each([
    ['F32', ALL_FLOAT32],
    ['F16', ALL_FLOAT32],
    ['BF16', ALL_BFLOAT16],
  ] as const)('takes the memory that it announced for %s files, and no more', async (dtype, types) => {
    const { directory } = writeTinyModel(newDirectory(), { dtype });
    const { memory, kernels } = engineMemory();
    const before = memory.used;
    const { config } = await loadModel(directory, { memory, kernels, signal });
    expect(memory.used - before).toBe(modelBytes(config, types));
  });

  it('keeps a matrix as bfloat16 if all of it is bfloat16 in the files, and norms as float32', async () => {
    const isBfloat16 = (name: string) => /q_proj|v_proj|o_proj|gate|up_proj|embed|norm/.test(name);
    const edit = (tensors: Map<string, WrittenTensor>) => {
      for (const [name, one] of tensors) if (isBfloat16(name)) tensors.set(name, tensor(one.shape, numbersOf(one), 'BF16'));
    };
    const { directory, tensors } = writeTinyModel(newDirectory(), { edit, shards: 3 });
    const { numbers, weights } = await loadAndUnpack(directory);
    const { embedding, head, layers } = weights;
    const types = await readWeightTypes(directory);
    expect(Array.from(tensors.keys(), types)).toEqual(Array.from(tensors.keys(), (name) => (isBfloat16(name) ? 'bfloat16' : 'float32')));
    expect([embedding.type, head.type]).toEqual(['bfloat16', 'float32']);
    for (const { qkv, output, gateUp, down } of layers) {
      expect([qkv.type, output.type, gateUp.type, down.type]).toEqual(['float32', 'bfloat16', 'bfloat16', 'float32']);
    }
    for (const [name, one] of tensors) expect([name, numbers.get(name)]).toEqual([name, numbersOf(one)]);
  });

  it('makes the table of rotations as short as the longest sequence', async () => {
    const { directory } = writeTinyModel(newDirectory());
    const bytes = async (maxModelLen?: number) => modelBytes(await readModelConfig(directory, { maxModelLen }), ALL_FLOAT32);
    expect((await bytes()) - (await bytes(16))).toBe((64 - 16) * 8 * 4);
    const { memory, kernels } = engineMemory();
    expect((await loadModel(directory, { memory, kernels, maxModelLen: 16, signal })).config.maxPositions).toBe(16);
  });

  it('asks for the longest sequence, giving the memory that the model takes at its own length', async () => {
    const { directory } = writeTinyModel(newDirectory(), { dtype: 'BF16' });
    const { memory, kernels } = engineMemory();
    const own = await readModelConfig(directory);
    const asked: unknown[] = [];
    const maxModelLen = (...about: readonly [ModelConfig, number]) => asked.push(about) * 24;
    const { config } = await loadModel(directory, { memory, kernels, maxModelLen, signal });
    expect(asked).toEqual([[own, modelBytes(own, ALL_BFLOAT16)]]);
    expect(config.maxPositions).toBe(24);
    expect(memory.used).toBe(modelBytes(config, ALL_BFLOAT16));
  });

  it('reports its progress to the end', async () => {
    const { directory, tensors } = writeTinyModel(newDirectory());
    const progress: number[] = [];
    const { memory, kernels } = engineMemory();
    const onProgress = ({ loadedBytes, totalBytes }: { loadedBytes: number; totalBytes: number }) => progress.push(loadedBytes / totalBytes);
    await loadModel(directory, { memory, kernels, signal, onProgress });
    expect(progress.length).toBe(tensors.size);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
    expect(progress.at(-1)).toBe(1);
  });

  it('skips what it does not need', async () => {
    const edit = (tensors: Map<string, WrittenTensor>) => {
      tensors.set('model.layers.0.self_attn.rotary_emb.inv_freq', tensor([4], new Float32Array(4).fill(NaN)));
      tensors.set('position_ids', { dtype: 'I64', shape: [2], bytes: Buffer.alloc(16) });
    };
    const { memory, kernels } = engineMemory();
    await loadModel(writeTinyModel(newDirectory(), { edit }).directory, { memory, kernels, signal });
    // Tied embeddings: a head that is present nevertheless is ignored.
    const tied = writeTinyModel(newDirectory(), { config: { tie_word_embeddings: true } });
    const weights = await loadModel(tied.directory, { memory, kernels, signal });
    expect(weights.head).toBe(weights.embedding);
  });
});

describe('loadModel, of a broken model', () => {
  const up = 'model.layers.1.mlp.up_proj.weight';
  const edits: Record<string, [(tensors: Map<string, WrittenTensor>) => unknown, RegExp]> = {
    'a missing tensor': [
      (tensors) => tensors.delete(up),
      /^The tensor model\.layers\.1\.mlp\.up_proj\.weight is missing from the 24 tensors of .*; download the model again$/,
    ],
    'a tensor of another shape': [
      (tensors) => tensors.set(up, tensor([16, 40], new Float32Array(640))),
      /^By config\.json .* must have shape \[40, 16\], got \[16, 40\]/,
    ],
    'a tensor of whole numbers': [
      (tensors) => tensors.set(up, { dtype: 'I64', shape: [40, 16], bytes: Buffer.alloc(5120) }),
      /must be F32, F16 or BF16, got I64/,
    ],
    'a number that is NaN': [
      (tensors) => tensors.set(up, tensor([40, 16], new Float32Array(640).fill(NaN, 639))),
      /up_proj.* contains a number that is not finite: NaN at 639/,
    ],
    'an infinity among bfloat16': [
      (tensors) => tensors.set('model.norm.weight', tensor([16], new Float32Array(16).fill(-Infinity, 5, 6), 'BF16')),
      /^model\.norm\.weight in .* contains a number that is not finite: -Infinity at 5/,
    ],
  };
  it.each(Object.entries(edits))('refuses %s in one line, and gives its memory back', async (_, [edit, message]) => {
    const { directory } = writeTinyModel(newDirectory(), { edit });
    const { memory, kernels } = engineMemory();
    const failure = await loadModel(directory, { memory, kernels, signal }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(EngineInputError);
    expect((failure as Error).message).toMatch(message);
    expect((failure as Error).message).not.toContain('\n');
    expect(memory.used).toBe(0);
  });

  it('refuses files that are torn, missing or elsewhere', async () => {
    const { memory, kernels } = engineMemory();
    const load = (directory: string) => loadModel(directory, { memory, kernels, signal });
    const torn = writeTinyModel(newDirectory());
    truncateSync(join(torn.directory, 'model.safetensors'), 12_000);
    await expect(load(torn.directory)).rejects.toThrow(
      /model\.safetensors is not a valid safetensors file: .* the file is truncated; download the model again$/,
    );
    const none = writeTinyModel(newDirectory());
    rmSync(join(none.directory, 'model.safetensors'));
    await expect(load(none.directory)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('save it again with save_pretrained'),
    });
    const half = writeTinyModel(newDirectory(), { shards: 2 });
    rmSync(join(half.directory, 'model-1-of-2.safetensors'));
    await expect(load(half.directory)).rejects.toMatchObject({ code: 'not_found', message: expect.stringContaining('model-1-of-2.safetensors') });
    writeFileSync(join(half.directory, 'model.safetensors.index.json'), JSON.stringify({ weight_map: { a: '../m0/model.safetensors' } }));
    await expect(load(half.directory)).rejects.toThrow(/weight_map in .* in its directory/);
    expect(memory.used).toBe(0);
  });

  it('stops between two tensors when cancelled', async () => {
    const { directory } = writeTinyModel(newDirectory());
    const { memory, kernels } = engineMemory();
    const controller = new AbortController();
    const onProgress = () => controller.abort(new Error('enough'));
    const loading = loadModel(directory, { memory, kernels, signal: controller.signal, onProgress });
    await expect(loading).rejects.toBeInstanceOf(CancelledError);
    expect(memory.used).toBe(0);
  });
});
