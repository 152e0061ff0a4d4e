/** Defaults for missing sampling fields: plain sampling, or the model's generation_config.json. */
import { join } from 'node:path';
import type { XStatic } from 'typebox/schema';
import { readJson } from '../../core/read-json.ts';
import { ConfigError } from '../../core/errors.ts';
import { EngineInputError } from '../../engine/engine-errors.ts';
import { readText } from '../../engine/model/text-file.ts';
import { numberOrNull, object } from '../../schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';

export interface SamplingDefaults {
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
}

/** vLLM's own defaults, with --generation-config vllm. */
export const PLAIN_SAMPLING: SamplingDefaults = { temperature: 1, topP: 1, topK: 0, minP: 0 };

const between = (minimum: number, maximum: number) => ({ ...numberOrNull, minimum, maximum }) as const;
const schema = object(
  {},
  {
    temperature: between(0, 2),
    top_p: { ...between(0, 1), exclusiveMinimum: 0 },
    top_k: { type: ['integer', 'null'], minimum: -1 },
    min_p: between(0, 1),
    repetition_penalty: numberOrNull,
  },
);

/** The defaults of a model directory; plain ones if it has no such file. Throws ConfigError for an invalid or unsupported file. */
export async function readSamplingDefaults(modelPath: string): Promise<SamplingDefaults> {
  const path = join(modelPath, 'generation_config.json');
  let text: string;
  try {
    text = await readText(path, { remedy: 'use plain defaults (--generation-config vllm)' });
  } catch (cause) {
    if (cause instanceof EngineInputError && cause.code === 'not_found') return PLAIN_SAMPLING;
    throw new ConfigError((cause as Error).message, { cause });
  }
  const config = parseConfig(text, path);
  if ((config.repetition_penalty ?? 1) !== 1) {
    throw new ConfigError(
      `${path} sets repetition_penalty ${config.repetition_penalty}, which the embedded engine does not support; use plain defaults (--generation-config vllm)`,
    );
  }
  return {
    temperature: config.temperature ?? PLAIN_SAMPLING.temperature,
    topP: config.top_p ?? PLAIN_SAMPLING.topP,
    topK: config.top_k ?? PLAIN_SAMPLING.topK,
    minP: config.min_p ?? PLAIN_SAMPLING.minP,
  };
}

function parseConfig(text: string, path: string): XStatic<typeof schema> {
  let value: unknown;
  try {
    value = readJson(text);
  } catch (cause) {
    throw new ConfigError(`${path} is not JSON; correct it or use plain defaults (--generation-config vllm)`, { cause });
  }
  const check = schemaCheck(schema);
  if (check(value)) return value;
  throw new ConfigError(`${path} has invalid sampling settings: ${schemaProblem(check, 'the file')}`);
}
