/** Parses settings of a training from a command line. */
import { parseToml } from '../../files/toml-text.ts';
import { acceptsType, configKeys, configTable, type KeySchema, nestedTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';
import type { ConfigLayer } from './resolve-config.ts';

const KEYS = configKeys(configTable(trainingConfigSchema));

/** The layer of `key=value`, which is known to have a key; without a value it unsets the key. */
export function settingLayer(text: string): ConfigLayer {
  const split = text.indexOf('=');
  const [key, value] = [text.slice(0, split).trim(), text.slice(split + 1).trim()];
  return value === '' ? { source: '--set', table: {}, unset: key } : { source: '--set', table: nestedTable(key, parseValue(key, value)) };
}

/** Parses TOML, and `null` as null; any other text is a string. A key that takes only strings needs no quotes. */
function parseValue(key: string, text: string): unknown {
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
