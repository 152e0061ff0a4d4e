/** Facts from config.json and adapter_config.json, read on this machine. A model that is only named by its hub id has no such file, and no facts. */
import { join } from 'node:path';
import { jsonObjectAt } from './json-file.ts';
import { isObject } from '../schemas/is-object.ts';
import type { JsonObject } from './source-text.ts';

/** Facts of a model's directory. */
export interface ModelFacts {
  /** config.json; null if it is missing or broken, which whatever loads the model reports. */
  readonly config: JsonObject | null;
  /** Longest context in tokens, from `max_position_embeddings` and its scaling; null if it is unknown. */
  readonly contextLength: number | null;
  /** Number of transformer layers; null if it is unknown. */
  readonly layers: number | null;
  /** Number of token ids, from `vocab_size`; null if it is unknown. */
  readonly vocabularySize: number | null;
  /** True if it has a vision tower. */
  readonly seesImages: boolean;
}

export function modelFacts(directory: string): ModelFacts {
  const config = jsonObjectAt(join(directory, 'config.json'));
  // Vision-language models keep the language model's settings in a table of their own.
  const { vision_config: vision, text_config: text } = config ?? {};
  const numberAt = (key: string) => {
    const value = config?.[key] ?? (isObject(text) ? text[key] : null);
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null;
  };
  return {
    config,
    contextLength: scaledLength(numberAt('max_position_embeddings'), isObject(text) ? { ...config, ...text } : (config ?? {})),
    layers: numberAt('num_hidden_layers'),
    vocabularySize: numberAt('vocab_size'),
    seesImages: isObject(vision),
  };
}

/** Types of rotary scaling with which `max_position_embeddings` is the length already, as vLLM and transformers read them. */
const SCALED_ALREADY: readonly unknown[] = ['default', 'llama3', 'longrope', 'su', 'mrope'];

/** The length with the model's rotary scaling (YaRN, linear, dynamic), by vLLM's rule: the original length times the factor. */
function scaledLength(length: number | null, { rope_scaling: old, rope_parameters: rope = old }: JsonObject): number | null {
  if (length === null || !isObject(rope)) return length;
  const { rope_type: type = rope['type'] ?? 'default', factor, original_max_position_embeddings: original } = rope;
  if (SCALED_ALREADY.includes(type) || typeof factor !== 'number' || !(factor > 1)) return length;
  return Math.max(length, Math.floor((typeof original === 'number' ? original : length) * factor));
}

/** The adapter_config.json of a PEFT directory; null if it is missing or broken. */
export function adapterConfig(directory: string): JsonObject | null {
  return jsonObjectAt(join(directory, 'adapter_config.json'));
}
