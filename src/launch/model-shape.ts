/** The shape of a decoder like Qwen2 and Qwen3, also in a vision-language model, read from its config.json, and its number of parameters. */
import { basename } from 'node:path';
import { modelFacts } from '../files/model-facts.ts';
import { isObject } from '../schemas/is-object.ts';
import { type TowerShape, towerShape } from './vision-shape.ts';

/** The parts of a config.json that determine memory. */
export interface ModelShape {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  /** Width of the MLP. */
  readonly feedForward: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headDim: number;
  readonly vocabulary: number;
  readonly isTied: boolean;
  /** True if queries and keys are normalised (Qwen3). */
  readonly hasQueryKeyNorm: boolean;
  /** True if queries, keys and values have biases (Qwen2). */
  readonly hasQkvBias: boolean;
  /** Its vision tower. @default none */
  readonly tower?: TowerShape;
}

/** Reads the config.json of Qwen2, Qwen3 or a decoder of the same architecture. Throws if a size is missing, and for a mixture of experts. */
export function modelShape(name: string, config: Readonly<Record<string, unknown>>): ModelShape {
  if (expertsOf(config) !== null) throw new RangeError(`${name} is a mixture of experts, whose layers have another shape.`);
  const { model_type: model, vision_config: vision, text_config: nested } = config;
  // A vision-language model describes its decoder in a table of its own; older files of Qwen2.5-VL do not.
  const text = isObject(nested) ? nested : config;
  const size = sizesOf(name, text);
  const type = String(text['model_type'] ?? model).replace(/_text$/, '');
  const [hidden, heads] = [size('hidden_size'), size('num_attention_heads')];
  return {
    name,
    hidden,
    heads,
    layers: size('num_hidden_layers'),
    feedForward: size('intermediate_size'),
    keyValueHeads: size('num_key_value_heads', heads),
    headDim: size('head_dim', hidden / heads),
    vocabulary: size('vocab_size'),
    isTied: (config['tie_word_embeddings'] ?? text['tie_word_embeddings']) === true,
    hasQueryKeyNorm: ['qwen3', 'qwen3_vl'].includes(type),
    hasQkvBias: ['qwen2', 'qwen2_5_vl'].includes(type) || text['attention_bias'] === true,
    ...(isObject(vision) ? { tower: towerShape(model, vision, sizesOf(`${name} (vision_config)`, vision)) } : {}),
  };
}

/** Number of experts in each layer of a mixture of experts; null for any other decoder. */
function expertsOf(config: Readonly<Record<string, unknown>>): number | null {
  const text = isObject(config['text_config']) ? config['text_config'] : config;
  // As Qwen, Mixtral and DeepSeek name it.
  const count = text['num_experts'] ?? text['num_local_experts'] ?? text['n_routed_experts'];
  return typeof count === 'number' && count > 1 ? count : null;
}

function sizesOf(name: string, table: Readonly<Record<string, unknown>>): (key: string, otherwise?: number) => number {
  return (key, otherwise) => {
    const value = table[key] ?? otherwise;
    if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value;
    throw new RangeError(`${key} in the config.json of ${name} must be a whole number above 0, got ${JSON.stringify(table[key])}.`);
  };
}

export const queryWidth = ({ heads, headDim }: ModelShape) => heads * headDim;
export const keyValueWidth = ({ keyValueHeads, headDim }: ModelShape) => keyValueHeads * headDim;

/** [in, out] of every linear layer of one decoder layer. */
function linears(shape: ModelShape): Readonly<Record<string, readonly [number, number]>> {
  const { hidden, feedForward } = shape;
  const [query, keyValue] = [queryWidth(shape), keyValueWidth(shape)];
  return {
    q_proj: [hidden, query],
    k_proj: [hidden, keyValue],
    v_proj: [hidden, keyValue],
    o_proj: [query, hidden],
    gate_proj: [hidden, feedForward],
    up_proj: [hidden, feedForward],
    down_proj: [feedForward, hidden],
  };
}

/** With the vision tower. */
export function parameterCount(shape: ModelShape): number {
  const { layers, hidden, vocabulary, isTied, tower } = shape;
  return (tower?.parameters ?? 0) + (isTied ? 1 : 2) * vocabulary * hidden + layers * layerParameterCount(shape) + hidden;
}

/** Number of parameters of one decoder layer. */
export function layerParameterCount(shape: ModelShape): number {
  const { hidden, headDim } = shape;
  const matrices = Object.values(linears(shape)).reduce((sum, [input, output]) => sum + input * output, 0);
  return matrices + 2 * hidden + (shape.hasQueryKeyNorm ? 2 * headDim : 0) + (shape.hasQkvBias ? queryWidth(shape) + 2 * keyValueWidth(shape) : 0);
}

export function adapterParameterCount(shape: ModelShape, rank: number, targets: readonly string[]): number {
  const own = linears(shape);
  return targets.reduce((sum, target) => {
    const size = own[target];
    if (size === undefined) throw new RangeError(`LoRA targets must be among ${Object.keys(own).join(', ')}, got ${target}.`);
    return sum + shape.layers * rank * (size[0] + size[1]);
  }, 0);
}

const QWEN = { head_dim: 128, vocab_size: 151_936, tie_word_embeddings: true, num_hidden_layers: 36 };
const QWEN2 = { ...QWEN, model_type: 'qwen2' };
const QWEN2_7B = {
  ...QWEN2,
  hidden_size: 3584,
  intermediate_size: 18_944,
  num_hidden_layers: 28,
  num_attention_heads: 28,
  num_key_value_heads: 4,
  vocab_size: 152_064,
  tie_word_embeddings: false,
};
const QWEN3 = { ...QWEN, model_type: 'qwen3', num_key_value_heads: 8 };
const TOWER = { depth: 32, hidden_size: 1280, intermediate_size: 3420, patch_size: 14 };
const TOWER3 = { hidden_size: 1024, intermediate_size: 4096, depth: 24, patch_size: 16, num_position_embeddings: 2304 };
/** From each model's config.json. */
const KNOWN: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'qwen2.5-3b': { ...QWEN2, hidden_size: 2048, intermediate_size: 11_008, num_attention_heads: 16, num_key_value_heads: 2 },
  'qwen2.5-vl-3b': {
    ...QWEN2,
    model_type: 'qwen2_5_vl',
    hidden_size: 2048,
    intermediate_size: 11_008,
    num_attention_heads: 16,
    num_key_value_heads: 2,
    vision_config: { ...TOWER, out_hidden_size: 2048 },
  },
  'qwen2.5-vl-7b': {
    ...QWEN2_7B,
    model_type: 'qwen2_5_vl',
    vision_config: { ...TOWER, out_hidden_size: 3584 },
  },
  'qwen3-vl-4b': {
    ...QWEN3,
    model_type: 'qwen3_vl',
    hidden_size: 2560,
    intermediate_size: 9728,
    num_attention_heads: 32,
    vision_config: { ...TOWER3, out_hidden_size: 2560, deepstack_visual_indexes: [5, 11, 17] },
  },
  'qwen3-vl-8b': {
    ...QWEN3,
    model_type: 'qwen3_vl',
    hidden_size: 4096,
    intermediate_size: 12_288,
    num_attention_heads: 32,
    tie_word_embeddings: false,
    vision_config: {
      ...TOWER3,
      depth: 27,
      hidden_size: 1152,
      intermediate_size: 4304,
      out_hidden_size: 4096,
      deepstack_visual_indexes: [8, 16, 24],
    },
  },
  'qwen3-0.6b': { ...QWEN3, hidden_size: 1024, intermediate_size: 3072, num_attention_heads: 16, num_hidden_layers: 28 },
  'qwen3-1.7b': { ...QWEN3, hidden_size: 2048, intermediate_size: 6144, num_attention_heads: 16, num_hidden_layers: 28 },
  'qwen3-4b': { ...QWEN3, hidden_size: 2560, intermediate_size: 9728, num_attention_heads: 32 },
  'qwen2.5-7b': QWEN2_7B,
  'qwen3-32b': {
    ...QWEN3,
    hidden_size: 5120,
    intermediate_size: 25_600,
    num_hidden_layers: 64,
    num_attention_heads: 64,
    tie_word_embeddings: false,
  },
  'qwen3-30b-a3b': {
    ...QWEN3,
    model_type: 'qwen3_moe',
    hidden_size: 2048,
    intermediate_size: 6144,
    moe_intermediate_size: 768,
    num_experts: 128,
    num_experts_per_tok: 8,
    num_hidden_layers: 48,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    tie_word_embeddings: false,
  },
  'qwen3-8b': { ...QWEN3, hidden_size: 4096, intermediate_size: 12_288, num_attention_heads: 32, tie_word_embeddings: false },
};

/**
 * The config.json of a model directory, or that of a model known by the last part of its name (`Qwen/Qwen3-4B`, also with `-Base` or `-Instruct`). Null if
 * it is neither here nor known.
 */
export function readModelConfig(path: string): Readonly<Record<string, unknown>> | null {
  const { config } = modelFacts(path);
  const name = basename(path)
    .toLowerCase()
    .replace(/-(base|instruct)$/, '');
  return config ?? KNOWN[name] ?? null;
}

export interface ExpertModel {
  readonly name: string;
  /** In each layer. */
  readonly experts: number;
  /** Of the whole model; null if its config.json is not that of Qwen3. */
  readonly parameters: number | null;
}

/** Null unless the model, a directory or a known name, is a mixture of experts. */
export function readExperts(path: string): ExpertModel | null {
  const config = readModelConfig(path);
  const experts = config === null ? null : expertsOf(config);
  return config === null || experts === null ? null : { name: basename(path), experts, parameters: expertParameterCount(config, experts) };
}

/** Counts the experts of a layer as one wide MLP, and the router that chooses among them. */
function expertParameterCount(config: Readonly<Record<string, unknown>>, experts: number): number | null {
  const width = config['moe_intermediate_size'];
  if (config['model_type'] !== 'qwen3_moe' || typeof width !== 'number') return null;
  const { num_experts: _, ...dense } = config;
  const shape = modelShape('experts', { ...dense, model_type: 'qwen3', intermediate_size: experts * width });
  return parameterCount(shape) + shape.layers * shape.hidden * experts;
}

/** Null if there is no config.json, or if it describes another kind of decoder. */
export function readModelShape(path: string): ModelShape | null {
  const config = readModelConfig(path);
  if (config === null) return null;
  try {
    return modelShape(basename(path), config);
  } catch {
    return null;
  }
}
