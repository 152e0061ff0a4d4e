/** Facts from config.json and adapter_config.json, read on this machine. A model that is only named by its hub id has no such file, and no facts. */
import { join } from 'node:path';
import { isObject } from '../schemas/is-object.ts';
import { readRegularFileSync } from './regular-file.ts';
import type { JsonObject } from './source-text.ts';

/** Facts of a model's directory. */
export interface ModelFacts {
  /** config.json; null if it is missing or broken, which whatever loads the model reports. */
  readonly config: JsonObject | null;
  /** Longest context in tokens, from `max_position_embeddings`; null if it is unknown. */
  readonly contextLength: number | null;
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
    contextLength: numberAt('max_position_embeddings'),
    vocabularySize: numberAt('vocab_size'),
    seesImages: isObject(vision),
  };
}

/** The adapter_config.json of a PEFT directory; null if it is missing or broken. */
export function adapterConfig(directory: string): JsonObject | null {
  return jsonObjectAt(join(directory, 'adapter_config.json'));
}

/** Null for a file that is missing, no regular file, or no JSON object. */
export function jsonObjectAt(path: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(readRegularFileSync(path));
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
