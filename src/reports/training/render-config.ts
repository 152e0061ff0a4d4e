/** Renders a resolved configuration as TOML with every key explained, for config.toml of a run and of its cards, and for `--show-config`. */
import { redactionOf } from '../../evaluate/redaction.ts';
import { type ConfigKey, type ConfigTable, configTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema, type TrainingConfigWire } from '../../schemas/training-config.ts';
import { DEFAULT_ORIGIN, type ResolvedConfig, saysNullAsNone } from '../../trainer/config/resolve-config.ts';
import { wrap } from '../text/terminal-text.ts';
import { tomlValue } from './toml-value.ts';
import { isObject } from '../../schemas/is-object.ts';

export interface RenderConfigOptions {
  /** Values to replace with `***`, in addition to those under names such as `api_key`. @default none */
  readonly secrets?: readonly string[];
  /** First line, a comment. */
  readonly heading?: string;
}

/** Without `origin`, the text names no sources. */
export interface RenderedConfig {
  readonly wire: TrainingConfigWire;
  readonly origin?: ResolvedConfig['origin'];
}

const WIDTH = 100;

/**
 * Reading it gives the same configuration: a key that is null by default becomes a comment, a number that is null against its default becomes "none".
 * Secrets are not written; a configuration with `***` is refused until they are given again.
 */
export function renderConfig({ wire, origin }: RenderedConfig, { secrets = [], heading }: RenderConfigOptions = {}): string {
  const shown = redactionOf(secrets).settings(wire);
  const title = heading ?? 'The complete configuration of a vf-train run: each key with its meaning, its value and the source of the value.';
  return `${[`# ${title}`, '', ...tableLines(configTable(trainingConfigSchema), shown, origin)].join('\n').trimEnd()}\n`;
}

type Origin = ResolvedConfig['origin'] | undefined;

function tableLines(table: ConfigTable, values: unknown, origin: Origin): string[] {
  const heading = table.path === '' ? [] : [...comment(table.description), `[${table.path}]`];
  if (!isObject(values)) return [...comment(table.description), `# [${table.path}]: not set`, ''];
  return [
    ...heading,
    ...table.keys.flatMap((key) => keyLines(key, values[key.name] ?? null, origin?.(key.path))),
    '',
    ...table.tables.flatMap((inner) => tableLines(inner, values[inner.path.split('.').at(-1)!], origin)),
  ];
}

function keyLines(key: ConfigKey, value: unknown, source: string | undefined): string[] {
  const preset = key.schema.default ?? null;
  const line =
    value !== null
      ? `${key.name} = ${tomlValue(value)}`
      : saysNullAsNone(key.schema) && preset !== null
        ? `${key.name} = "none"`
        : `# ${key.name}: not set`;
  if (source === DEFAULT_ORIGIN) return [...comment(key.description), `${line}  # default`];
  const notes = [...(source === undefined ? [] : [source.replace(/\s+/g, ' ')]), ...(preset === null ? [] : [`default ${tomlValue(preset)}`])];
  return [...comment(key.description), notes.length === 0 ? line : `${line}  # ${notes.join('; ')}`];
}

function comment(text: string): string[] {
  return wrap(text, WIDTH - 2, { wholeWords: true }).map((line) => `# ${line}`);
}
