/**
 * Reads and checks config.json and generation_config.json of a dense Qwen3 model. Any setting for which this engine would compute something else than transformers is
 * refused by name. Fields without effect here (dropout, dtype, initializer) are ignored.
 */
import type { ByteSource } from '../../files/byte-source.ts';
import { EngineInputError } from '../engine-errors.ts';
import { fileError, type JsonObject, readJsonObject, readJsonObjectIfPresent, shown } from './json-file.ts';
import type { ModelConfig } from './model-types.ts';
import { isObject } from '../../schemas/is-object.ts';

const OTHERWISE = 'serve other models with vLLM';
/** transformers' defaults for fields missing from config.json. */
const DEFAULTS = { headDim: 128, ropeTheta: 10_000, rmsNormEpsilon: 1e-6 } as const;
const MAX_SIZE = 2 ** 24;

/**
 * `maxModelLen` replaces `maxPositions` and must not be longer. Rejects with EngineInputError: `not_found`, `unsupported` for another kind of model, `invalid` for a
 * broken file.
 */
export async function readModelConfig(source: ByteSource, { maxModelLen }: { readonly maxModelLen?: number | undefined } = {}): Promise<ModelConfig> {
  await checkFolder(source);
  const path = source.pathOf('config.json');
  const fields = new Fields(path, await readConfig(source));
  checkKind(fields);
  const generation = await readJsonObjectIfPresent(source, 'generation_config.json', { remedy: 'it may be left out' });
  const config = sizesOf(fields, source.path);
  const endTokenIds =
    generation === null ? null : new Fields(source.pathOf('generation_config.json'), generation).idsOrNull('eos_token_id', config.vocabularySize);
  const maxPositions = maxModelLen ?? config.maxPositions;
  if (!Number.isSafeInteger(maxPositions) || maxPositions < 1 || maxPositions > config.maxPositions) {
    throw new EngineInputError(
      `The maximum length must be 1 to ${config.maxPositions} tokens (max_position_embeddings in ${path}), got ${maxPositions}`,
    );
  }
  return { ...config, maxPositions, endTokenIds: endTokenIds ?? config.endTokenIds };
}

async function checkFolder(source: ByteSource): Promise<void> {
  const { path } = source;
  const remedy = 'pass the path of a Hugging Face directory with a dense Qwen3 model';
  const isFolder = await source.isFolder().catch((cause: unknown) => {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw fileError(path, cause, remedy);
    throw new EngineInputError(`There is no model directory ${path}; ${remedy}`, { code: 'not_found', cause });
  });
  if (!isFolder) throw new EngineInputError(`${path.replace(/^.*[/\\]/, '')} at ${path} is a file, not a model directory; ${remedy}`);
}

async function readConfig(source: ByteSource): Promise<JsonObject> {
  const remedy = 'a model is a Hugging Face directory with config.json, model.safetensors and tokenizer.json';
  const config = await readJsonObjectIfPresent(source, 'config.json', { remedy });
  if (config !== null) return config;
  const isAdapter = (await readJsonObjectIfPresent(source, 'adapter_config.json', { remedy })) !== null;
  const adapter =
    'this is a LoRA adapter: give its base as the model, and the adapter by vf-serve policy --adapter NAME=DIRECTORY, model.initial_adapter of vf-train or loadAdapter of the engine';
  // Rejects with the error of the missing file.
  return readJsonObject(source, 'config.json', { remedy: isAdapter ? adapter : remedy });
}

/** Refuses models that this engine would compute differently. */
function checkKind(fields: Fields): void {
  const { values } = fields;
  if (values['model_type'] !== 'qwen3') fields.refuse('model_type', '"qwen3" (a dense Qwen3)');
  const architectures = values['architectures'] ?? ['Qwen3ForCausalLM'];
  if (!Array.isArray(architectures) || !architectures.includes('Qwen3ForCausalLM')) fields.refuse('architectures', '["Qwen3ForCausalLM"]');
  for (const key of ['num_experts', 'num_local_experts', 'n_routed_experts']) {
    if ((values[key] ?? 0) !== 0) fields.refuse(key, 'absent: no mixture of experts');
  }
  if ((values['hidden_act'] ?? 'silu') !== 'silu') fields.refuse('hidden_act', '"silu"');
  if ((values['attention_bias'] ?? false) !== false) fields.refuse('attention_bias', 'false');
  if ((values['partial_rotary_factor'] ?? 1) !== 1) fields.refuse('partial_rotary_factor', '1');
  if (values['quantization_config'] !== undefined) fields.refuse('quantization_config', 'absent: float32, bfloat16 or float16 weights');
  checkAttention(fields);
}

function checkAttention(fields: Fields): void {
  const { values } = fields;
  const types = values['layer_types'];
  if (types !== undefined && (!Array.isArray(types) || types.some((type) => type !== 'full_attention')))
    fields.refuse('layer_types', '"full_attention" for every layer');
  const slides = types === undefined && values['use_sliding_window'] === true;
  if (slides && Number(values['max_window_layers'] ?? 28) < Number(values['num_hidden_layers'])) {
    fields.refuse('use_sliding_window', 'false: every layer attends to all earlier tokens');
  }
}

function sizesOf(fields: Fields, directory: string): ModelConfig {
  const heads = fields.size('num_attention_heads');
  const kvHeads = fields.size('num_key_value_heads');
  if (heads % kvHeads !== 0) fields.refuse('num_key_value_heads', `a divisor of num_attention_heads, ${heads}`, 'invalid');
  const vocabularySize = fields.size('vocab_size');
  const rmsNormEpsilon = fields.values['rms_norm_eps'] ?? DEFAULTS.rmsNormEpsilon;
  if (typeof rmsNormEpsilon !== 'number' || !(rmsNormEpsilon > 0 && rmsNormEpsilon < 1))
    return fields.refuse('rms_norm_eps', 'a number above 0', 'invalid');
  const tied = fields.values['tie_word_embeddings'] ?? false;
  if (typeof tied !== 'boolean') return fields.refuse('tie_word_embeddings', 'true or false', 'invalid');
  return {
    vocabularySize,
    hiddenSize: fields.size('hidden_size', { multipleOf: 8 }),
    intermediateSize: fields.size('intermediate_size', { multipleOf: 8 }),
    layers: fields.size('num_hidden_layers'),
    heads,
    kvHeads,
    headDim: fields.values['head_dim'] === undefined ? DEFAULTS.headDim : fields.size('head_dim', { multipleOf: 8 }),
    maxPositions: fields.size('max_position_embeddings'),
    rmsNormEpsilon,
    ropeTheta: ropeTheta(fields),
    tiedEmbeddings: tied,
    endTokenIds: fields.idsOrNull('eos_token_id', vocabularySize) ?? [],
    path: directory,
  };
}

/** Reads `rope_parameters`, as written by transformers 5, else `rope_theta` with `rope_scaling`. */
function ropeTheta(fields: Fields): number {
  const { values } = fields;
  let theta = values['rope_theta'];
  for (const key of ['rope_scaling', 'rope_parameters']) {
    const rope = values[key];
    if (rope === undefined) continue;
    if (!isObject(rope)) return fields.refuse(key, 'an object', 'invalid');
    const { rope_theta: own, rope_type: type, type: oldType, ...others } = rope;
    const changes = Object.keys(others).filter((name) => others[name] !== null && !(name === 'partial_rotary_factor' && others[name] === 1));
    if ((type ?? oldType ?? 'default') !== 'default' || changes.length > 0) fields.refuse(key, 'of type "default", without scaling');
    theta = own ?? theta;
  }
  theta ??= DEFAULTS.ropeTheta;
  if (typeof theta !== 'number' || !(theta > 1 && Number.isFinite(theta))) return fields.refuse('rope_theta', 'a number above 1', 'invalid');
  return theta;
}

/** The fields of one file, with messages that name it. Null counts as absent. */
class Fields {
  readonly path: string;
  readonly values: JsonObject;

  constructor(path: string, values: JsonObject) {
    this.path = path;
    this.values = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
  }

  refuse(key: string, expected: string, code: 'unsupported' | 'invalid' = 'unsupported'): never {
    const remedy = code === 'unsupported' ? OTHERWISE : 'correct the file';
    throw new EngineInputError(`${key} in ${this.path} must be ${expected}, got ${shown(this.values[key])}; ${remedy}`, { code });
  }

  size(key: string, { multipleOf = 1 }: { readonly multipleOf?: number } = {}): number {
    const value = this.values[key];
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1 || value > MAX_SIZE)
      return this.refuse(key, `a whole number from 1 to ${MAX_SIZE}`, 'invalid');
    if (value % multipleOf !== 0) this.refuse(key, `a multiple of ${multipleOf}`);
    return value;
  }

  /** One or several token ids; null if the field is absent. */
  idsOrNull(key: string, vocabularySize: number): readonly number[] | null {
    const value = this.values[key];
    if (value === undefined) return null;
    const ids: readonly unknown[] = Array.isArray(value) ? value : [value];
    const isId = (id: unknown): id is number => typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 && id < vocabularySize;
    if (!ids.every(isId)) return this.refuse(key, `token ids from 0 to ${vocabularySize - 1}`, 'invalid');
    return [...new Set(ids)];
  }
}
