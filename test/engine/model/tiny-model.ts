/** Qwen3 directories for tests: a few thousand seeded numbers in the real format, and ways to get each of them wrong. No tokenizer. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../../../src/core/random.ts';
import { safetensorsFile, tensor, type WrittenTensor } from '../../trainer/publisher/adapter-files.ts';

/** Every size differs, and the vocabulary is not a multiple of 8. */
export const TINY_CONFIG = {
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 21,
  hidden_size: 16,
  intermediate_size: 40,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 8,
  hidden_act: 'silu',
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  tie_word_embeddings: false,
  attention_bias: false,
  eos_token_id: 3,
} as const;

export interface TinyWish {
  /** Set over TINY_CONFIG; undefined removes a field, null does not. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** @default F32 */
  readonly dtype?: 'F32' | 'BF16' | 'F16';
  /** Changes the tensors before they are written. */
  readonly edit?: (tensors: Map<string, WrittenTensor>) => void;
  /** Files the tensors are dealt out to; with more than one there is an index. @default 1 */
  readonly shards?: number;
}

export interface TinyModel {
  readonly directory: string;
  readonly tensors: ReadonlyMap<string, WrittenTensor>;
}

/** Writes a directory, which may exist. */
export function writeTinyModel(directory: string, { config = {}, dtype = 'F32', edit, shards = 1 }: TinyWish = {}): TinyModel {
  const random = Random.fromSeed(1);
  const tensors = new Map<string, WrittenTensor>();
  for (const [name, shape] of tinyShapes()) {
    const count = shape.reduce((product, size) => product * size, 1);
    tensors.set(
      name,
      tensor(
        shape,
        Float32Array.from({ length: count }, () => random.float() * 2 - 1),
        dtype,
      ),
    );
  }
  edit?.(tensors);
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...config }));
  writeWeights(directory, tensors, shards);
  return { directory, tensors };
}

/** One file, or as many with an index. */
export function writeWeights(directory: string, tensors: ReadonlyMap<string, WrittenTensor>, shards: number): void {
  if (shards === 1) return writeFileSync(join(directory, 'model.safetensors'), safetensorsFile(tensors));
  const parts = Array.from({ length: shards }, () => new Map<string, WrittenTensor>());
  const weightMap: Record<string, string> = {};
  const fileOf = (shard: number) => `model-${shard}-of-${shards}.safetensors`;
  for (const [i, [name, one]] of [...tensors].entries()) {
    parts[i % shards]!.set(name, one);
    weightMap[name] = fileOf(i % shards);
  }
  for (const [shard, part] of parts.entries()) writeFileSync(join(directory, fileOf(shard)), safetensorsFile(part));
  writeFileSync(join(directory, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map: weightMap }));
}

function tinyShapes(): [string, readonly number[]][] {
  const { vocab_size: vocabulary, hidden_size: hidden, intermediate_size: inner, head_dim: head } = TINY_CONFIG;
  const [queries, keys] = [TINY_CONFIG.num_attention_heads * head, TINY_CONFIG.num_key_value_heads * head];
  const layer = (i: number): [string, readonly number[]][] => [
    [`model.layers.${i}.input_layernorm.weight`, [hidden]],
    [`model.layers.${i}.self_attn.q_proj.weight`, [queries, hidden]],
    [`model.layers.${i}.self_attn.k_proj.weight`, [keys, hidden]],
    [`model.layers.${i}.self_attn.v_proj.weight`, [keys, hidden]],
    [`model.layers.${i}.self_attn.o_proj.weight`, [hidden, queries]],
    [`model.layers.${i}.self_attn.q_norm.weight`, [head]],
    [`model.layers.${i}.self_attn.k_norm.weight`, [head]],
    [`model.layers.${i}.post_attention_layernorm.weight`, [hidden]],
    [`model.layers.${i}.mlp.gate_proj.weight`, [inner, hidden]],
    [`model.layers.${i}.mlp.up_proj.weight`, [inner, hidden]],
    [`model.layers.${i}.mlp.down_proj.weight`, [hidden, inner]],
  ];
  return [
    ['model.embed_tokens.weight', [vocabulary, hidden]],
    ...[0, 1].flatMap(layer),
    ['model.norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
}
