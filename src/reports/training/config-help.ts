/** `--help-config` and `--list-presets`: the configuration and the presets as text in 80 columns. */
import { allowedText, type ConfigTable, configTable } from '../../schemas/config-keys.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';
import { roleTableSchema } from '../../schemas/roles-config.ts';
import { lossTableSchema } from '../../schemas/training-algorithm-config.ts';
import { wrap } from '../text/terminal-text.ts';
import type { Preset } from '../../trainer/config/preset.ts';
import { tomlValue } from './toml-value.ts';

const WIDTH = 80;

export function configHelpText(): string {
  const lines = [
    'Every key of a training run. In a TOML file, tables are written [table]; on the',
    'command line, use --set table.key=value. Also in docs/training-config.md.',
    'extends = "other.toml" at the top of a file takes what the file leaves out from',
    "another one, named relative to the file's own folder.",
    '',
    ...tableLines(configTable(trainingConfigSchema)),
    ...tableLines(configTable(lossTableSchema, 'losses.<name>')),
    ...tableLines(configTable(roleTableSchema, 'roles.<role>')),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
}

function tableLines({ path, description, keys, tables }: ConfigTable): string[] {
  const isOptional = /^(roles|losses)\./.test(path);
  const heading = path === '' ? [] : [`[${path}]`, ...indented(description, 2)];
  return [
    ...heading,
    ...keys.flatMap(({ name, schema, description: meaning }) => {
      const fallback =
        schema.default === undefined
          ? isOptional
            ? 'optional'
            : 'required'
          : schema.default === null
            ? 'default: not set'
            : `default ${tomlValue(schema.default)}`;
      return [...indented(`${name}: ${allowedText(schema)}; ${fallback}`, 2), ...indented(meaning, 6)];
    }),
    '',
    ...tables.flatMap(tableLines),
  ];
}

export function presetsText(presets: readonly Preset[]): string {
  const lines = presets.flatMap(({ name, environment, summary, differences }) => [
    `${environment} --preset ${name}`,
    ...indented(summary, 2),
    ...(differences.length === 0 ? [] : ['  Differences from upstream:']),
    ...differences.flatMap(({ key, upstream, ours, why }) => [
      `    ${key}`,
      ...indented(`upstream: ${upstream}`, 6),
      ...indented(`here: ${ours}`, 6),
      ...indented(`why: ${why}`, 6),
    ]),
    '',
  ]);
  return `${lines.join('\n').trimEnd()}\n`;
}

function indented(text: string, by: number): string[] {
  return wrap(text, WIDTH - by, { wholeWords: true }).map((line) => ' '.repeat(by) + line);
}
