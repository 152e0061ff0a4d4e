/** The random Qwen3-Embedding of test/golden/engine/embeddings.json, as a directory: its weights are made from hashes, its tokenizer is nano-base's with an end token. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ALL_FLOAT32, layOutModel } from '../../src/engine/model/model-layout.ts';
import { readModelConfig } from '../engine/from-directory.ts';
import { hashNumbers } from '../engine/compute/hash-numbers.ts';
import { writeWeights } from '../engine/model/tiny-model.ts';
import { tensor, type WrittenTensor } from '../trainer/publisher/adapter-files.ts';

const root = join(import.meta.dirname, '../..');

export interface EmbeddingsGolden {
  readonly config: Readonly<Record<string, unknown>>;
  readonly post_processor: unknown;
  readonly max_tokens: number;
  readonly texts: readonly string[];
  readonly ids: readonly (readonly number[])[];
  readonly vectors: readonly (readonly number[])[];
}

export const EMBEDDINGS_GOLDEN = JSON.parse(readFileSync(join(root, 'test/golden/engine/embeddings.json'), 'utf8')) as EmbeddingsGolden;

/** `hasPrefix`: tensors named as in a causal model, `model.norm.weight`; else as on the hub, `norm.weight`. */
export async function writeEmbeddingModel(directory: string, { hasPrefix = false } = {}): Promise<void> {
  const { config, post_processor: processor } = EMBEDDINGS_GOLDEN;
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), JSON.stringify(config));
  const tokenizer = JSON.parse(readFileSync(join(root, 'models/nano-base/tokenizer.json'), 'utf8')) as object;
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify({ ...tokenizer, post_processor: processor }));
  writeFileSync(join(directory, 'tokenizer_config.json'), readFileSync(join(root, 'models/nano-base/tokenizer_config.json')));
  const { tensors } = layOutModel(await readModelConfig(directory), ALL_FLOAT32, () => 0);
  const written = new Map<string, WrittenTensor>();
  for (const { name, shape } of tensors) {
    const [outputs, inputs] = shape;
    const [offset, factor] = inputs === undefined ? [1, 0.3] : [0, name.includes('embed') ? 1 : Math.sqrt(3 / inputs)];
    const values = hashNumbers(name, outputs! * (inputs ?? 1)).map((value) => value * factor + offset);
    written.set(hasPrefix ? name : name.replace(/^model\./, ''), tensor(shape, Float32Array.from(values), 'F32'));
  }
  writeWeights(directory, written, 1);
}
