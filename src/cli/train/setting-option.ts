/** An option that sets one key of a training's configuration. Kind, range and default are those of the key's schema. */
import { acceptsType, configKeys, configTable, isNullable, type KeySchema } from '../../schemas/config-keys.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';
import { KEY_FLAGS, type KeyFlagName } from './key-flags.ts';
import { settingNumber } from '../../core/setting-number.ts';
import { number, text, wholeNumber } from '../options/kinds.ts';
import type { Option } from '../options/option.ts';

const KEYS = configKeys(configTable(trainingConfigSchema));

/**
 * @param placeholder default: that of the kind
 * @param otherwise the help's text for a run without the option. Default: the default of the key
 */
export function setting(name: KeyFlagName, description: string, placeholder?: string, otherwise?: string): Option<unknown, false> {
  const flag: { readonly key: string; readonly letter?: string } = KEY_FLAGS[name];
  const schema = KEYS.find(({ path }) => path === flag.key)!.schema;
  const said = otherwise ?? (schema.default === undefined || schema.default === null ? undefined : defaultText(schema.default));
  const settings = {
    ...(flag.letter === undefined ? {} : { letter: flag.letter }),
    ...(placeholder === undefined ? {} : { placeholder }),
    ...(said === undefined ? {} : { otherwise: said }),
  };
  const option = optionFor(schema, description, settings);
  return isNullable(schema) ? orNull(option) : option;
}

function optionFor(schema: KeySchema, description: string, settings: object): Option<unknown, false> {
  const { minimum, exclusiveMinimum, maximum } = schema;
  const range = {
    ...(minimum === undefined ? {} : { from: minimum }),
    ...(exclusiveMinimum === undefined ? {} : { above: exclusiveMinimum }),
    ...(maximum === undefined ? {} : { to: maximum }),
  };
  if (acceptsType(schema, 'integer')) return wholeNumber(description, { ...settings, ...range });
  return acceptsType(schema, 'number') ? number(description, { ...settings, ...range }) : text(description, settings);
}

function defaultText(value: unknown): string {
  return typeof value === 'number' ? settingNumber(value) : String(value);
}

/** `none` and `null` unset a key that may be null, as in a file and with `--set`. */
function orNull(option: Option<unknown, false>): Option<unknown, false> {
  return {
    ...option,
    parse: (word, spelling, before) => (word === 'none' || word === 'null' ? null : option.parse(word, spelling, before)),
  };
}
