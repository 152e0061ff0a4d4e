/** Parses configuration values from a command line. */
import { parseToml } from '../../files/toml-text.ts';
import { ConfigError } from '../../core/errors.ts';
import { readJson } from '../../core/read-json.ts';
import { isDeeperThan, MOST_LEVELS } from '../../schemas/nesting.ts';
import { acceptsType, configKeys, configTable, type KeySchema, nestedTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';
import { isObject } from '../../schemas/is-object.ts';

const KEYS = configKeys(configTable(trainingConfigSchema));

/** Parses `key=value`. Throws ConfigError if the key or the `=` is missing. */
export function parseSet(text: string): Record<string, unknown> {
  const split = text.indexOf('=');
  const key = text.slice(0, Math.max(split, 0)).trim();
  if (split < 1 || !key.split('.').every((part) => /^[\w-]+$/.test(part))) {
    throw new ConfigError(
      `--set needs key=value with a dotted key, such as optimizer.learning_rate=1e-5, got ${split < 0 ? `"${text}"` : `"${key}="`}`,
    );
  }
  return nestedTable(key, parseValue(key, text.slice(split + 1).trim()));
}

/** Parses TOML, and `null` as null; any other text is a string. A key that takes only strings needs no quotes. */
export function parseValue(key: string, text: string): unknown {
  const schema = KEYS.find(({ path }) => path === key)?.schema ?? entrySchema(key);
  if (text === 'null') return null;
  const isQuoted = /^["'[{]/.test(text);
  const takesOnlyText = schema !== undefined && ['number', 'integer', 'boolean', 'object'].every((type) => !acceptsType(schema, type));
  if (takesOnlyText && !isQuoted) return text;
  try {
    const document = parseToml(`value = ${text}`, key);
    // A line feed could start another key.
    if (Object.keys(document).length === 1) return document['value'] instanceof Date ? text : document['value'];
  } catch {
    // Not TOML: a bare string.
  }
  return text;
}

/** Schema of a key in a free table (`policy.launch.env.OMP_NUM_THREADS`), if the table defines its values. */
function entrySchema(key: string): KeySchema | undefined {
  const table = KEYS.find(({ path }) => key.startsWith(`${path}.`));
  const entries = table?.schema.additionalProperties;
  if (typeof entries !== 'object') return undefined;
  // `roles.judge.model`: the entry is a table itself.
  return entries.properties === undefined
    ? entries
    : entries.properties[
        key
          .split('.')
          .slice(table!.path.split('.').length + 1)
          .join('.')
      ];
}

/** Throws ConfigError without showing the text, which may hold a secret. */
export function parseJsonObject(text: string, flag: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = readJson(text);
  } catch (cause) {
    throw new ConfigError(`${flag} must be a JSON object such as '{"topk": 5}', but its value is not valid JSON`, { cause });
  }
  if (isDeeperThan(value, MOST_LEVELS)) throw new ConfigError(`${flag} is nested more than ${MOST_LEVELS} levels deep; use a flatter object`);
  if (!isObject(value)) throw new ConfigError(`${flag} must be a JSON object such as '{"topk": 5}', but its value is another kind of JSON`);
  return value;
}
