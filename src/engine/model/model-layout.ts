/** Memory layout of a model's weights, and the tensors of the files that go there. */
import { aligned } from '../compute/memory.ts';
import { type LayerWeights, type ModelConfig, type ModelWeights, WEIGHT_BYTES, type WeightMatrix, type WeightType } from './model-types.ts';

export interface TensorPlace {
  /** Name in the files. */
  readonly name: string;
  /** [outputs, inputs] of a matrix, [size] of a norm. */
  readonly shape: readonly number[];
  /** Address of the tensor's first panel, or of the norm's first number. */
  readonly pointer: number;
  /** Type in memory. */
  readonly type: WeightType;
}

export interface ModelLayout {
  readonly weights: ModelWeights;
  readonly tensors: readonly TensorPlace[];
}

/** A tensor's type in the files; `float32` for all but bfloat16. */
export type WeightTypes = (tensor: string) => WeightType;
export const ALL_FLOAT32: WeightTypes = () => 'float32';
export const ALL_BFLOAT16: WeightTypes = () => 'bfloat16';

/** Bytes of the model at full length: weights with padded panels, and the rotation table. */
export function modelBytes(config: ModelConfig, types: WeightTypes): number {
  let bytes = 0;
  layOutModel(config, types, (count) => {
    bytes += aligned(count * 4);
    return 0;
  });
  return bytes;
}

/**
 * `take` allocates this many float32 numbers, or twice as many bfloat16 ones, and returns the address. Norms are always float32; a matrix of several tensors is bfloat16
 * only if all of them are.
 */
export function layOutModel(config: ModelConfig, types: WeightTypes, take: (count: number) => number): ModelLayout {
  const tensors: TensorPlace[] = [];
  const { hiddenSize, intermediateSize, vocabularySize, headDim } = config;
  const vector = (name: string, size: number): number => {
    const pointer = take(size);
    tensors.push({ name, shape: [size], pointer, type: 'float32' });
    return pointer;
  };
  /** Packs several tensors into one matrix with consecutive outputs; all but the last have a multiple of 8. */
  const matrix = (inputs: number, parts: readonly (readonly [name: string, outputs: number])[]): WeightMatrix => {
    const outputs = parts.reduce((sum, [, count]) => sum + count, 0);
    const type = parts.every(([name]) => types(name) === 'bfloat16') ? 'bfloat16' : 'float32';
    const bytes = WEIGHT_BYTES[type];
    const pointer = take((Math.ceil(outputs / 8) * 8 * inputs * bytes) / 4);
    let first = 0;
    for (const [name, count] of parts) {
      tensors.push({ name, shape: [count, inputs], pointer: pointer + first * inputs * bytes, type });
      first += count;
    }
    return { pointer, inputs, outputs, type };
  };
  const layer = (index: number): LayerWeights => {
    const path = `model.layers.${index}`;
    const attention = `${path}.self_attn`;
    const [queries, keys] = [config.heads * headDim, config.kvHeads * headDim];
    return {
      inputNorm: vector(`${path}.input_layernorm.weight`, hiddenSize),
      qkv: matrix(hiddenSize, [
        [`${attention}.q_proj.weight`, queries],
        [`${attention}.k_proj.weight`, keys],
        [`${attention}.v_proj.weight`, keys],
      ]),
      queryNorm: vector(`${attention}.q_norm.weight`, headDim),
      keyNorm: vector(`${attention}.k_norm.weight`, headDim),
      output: matrix(queries, [[`${attention}.o_proj.weight`, hiddenSize]]),
      postNorm: vector(`${path}.post_attention_layernorm.weight`, hiddenSize),
      gateUp: matrix(hiddenSize, [
        [`${path}.mlp.gate_proj.weight`, intermediateSize],
        [`${path}.mlp.up_proj.weight`, intermediateSize],
      ]),
      down: matrix(intermediateSize, [[`${path}.mlp.down_proj.weight`, hiddenSize]]),
    };
  };
  const embedding = matrix(hiddenSize, [['model.embed_tokens.weight', vocabularySize]]);
  const layers = Array.from({ length: config.layers }, (_, index) => layer(index));
  const finalNorm = vector('model.norm.weight', hiddenSize);
  const head = config.tiedEmbeddings ? embedding : matrix(hiddenSize, [['lm_head.weight', vocabularySize]]);
  const rotations = take(config.maxPositions * headDim);
  return { weights: { config, embedding, layers, finalNorm, head, rotations }, tensors };
}
