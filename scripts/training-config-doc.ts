/**
 * Writes docs/training-config.md from the schema and the presets: `node --conditions=source scripts/training-config-doc.ts`. A test compares the result
 * with the committed file.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tomlValue } from '../src/cli/train/toml-value.ts';
import { allowedText, type ConfigTable, configTable } from '../src/schemas/config-keys.ts';
import { trainingConfigSchema } from '../src/schemas/training-config.ts';
import { type Preset, PRESETS } from '../src/trainer/presets.ts';
import { CHANGEABLE_ON_RESUME } from '../src/trainer/resume-config.ts';

const INTRODUCTION = `# Configuration of a training run

<!-- Written by scripts/training-config-doc.ts from src/schemas/training-config.ts and src/trainer/presets.ts. Do not edit. -->

Configure a run with a TOML file, flags, or both: \`vf-train run.toml --set optimizer.learning_rate=1e-5\`. The keys are the same everywhere.

1. **Precedence.** Defaults < preset (\`--preset\`, or \`preset = "..."\` at the top of the file) < file < \`VF_BASE_URL\` (with \`VF_MODEL\` and \`VF_API_KEY\`, if
   nothing else names a server) < flags < \`--set\`. Tables are merged key by key, including \`args\`, \`eval_args\` and \`env\`. Choosing another environment drops the
   environment arguments of preset and file.
2. **Null.** TOML has no null: leave the key out. To set a number with another default to null, write \`"none"\` in a file, or \`--set key=null\`.
3. **Inspection.** \`--show-config\` prints the complete configuration with the source of every value, \`--help-config\` prints this list. The run's folder contains the
   configuration as \`config.toml\`, with \`***\` instead of secrets; a resumed run needs them again.
4. **Rows.** The environment defines the training and the held-out rows (Search-R1: the splits \`train\` and \`test\`). \`eval_args\` opens another environment for evaluations.
5. **Errors** take one line: key, where it was set, value, allowed values. Exit code 2.

The minimal file:

\`\`\`toml
[environment]
id = "search-r1"

[model]
path = "models/nano-base"

[policy]
base_url = "http://127.0.0.1:8000/v1"   # or a table [policy.launch], which starts vLLM, or [policy.embedded], which samples in this process
\`\`\`

With \`[policy.embedded]\` and \`backend.kind = "embedded"\` (both: \`--embedded\`) one engine in this process samples and trains, which needs only Node. Each can also be
combined with vLLM or PyTorch for the other part.
`;

/** The whole document. */
export function trainingConfigDoc(): string {
  return `${[
    INTRODUCTION,
    '## Keys',
    '',
    ...tableLines(configTable(trainingConfigSchema)),
    ...presetLines(),
    '## Keys that may change when a run is resumed',
    '',
    `${CHANGEABLE_ON_RESUME.map((key) => `\`${key}\``).join(', ')}. With \`--allow-changes\` also \`optimizer\` and \`algorithm\`. Other changes are refused, with the old and`,
    'the new value, because a checkpoint holds weights, moments, data position and seed, which depend on the other keys.',
  ].join('\n')}\n`;
}

function tableLines({ path, description, optional, keys, tables }: ConfigTable): string[] {
  const heading = path === '' ? [] : [`### \`[${path}]\``, '', `${description}${optional ? ' Left out by default.' : ''}`, ''];
  const rows = keys.map(({ name, schema, description: meaning }) => {
    const fallback = schema.default === undefined ? 'required' : schema.default === null ? 'not set' : `\`${tomlValue(schema.default)}\``;
    return `| \`${name}\` | ${cell(allowedText(schema))} | ${fallback.replaceAll('|', String.raw`\|`)} | ${cell(meaning)} |`;
  });
  const table = rows.length === 0 ? [] : ['| key | value | default | meaning |', '|---|---|---|---|', ...rows, ''];
  return [...heading, ...table, ...tables.flatMap(tableLines)];
}

function presetLines(): string[] {
  return [
    '## Presets',
    '',
    'A first run, and published settings for Search-R1, as far as LoRA and an HTTP server allow. A preset may set any key; file, flags and `--set` override it.',
    '`vf-train <environment> --preset NAME --show-config` prints the values.',
    '',
    ...PRESETS.flatMap(({ name, summary, differences }) => [
      `### \`${name}\``,
      '',
      `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.${differences.length === 0 ? '' : ' Differences from upstream:'}`,
      '',
      ...differenceLines(differences),
    ]),
  ];
}

function differenceLines(differences: Preset['differences']): string[] {
  if (differences.length === 0) return [];
  const rows = differences.map(({ key, upstream, ours, why }) => `| \`${key}\` | ${cell(upstream)} | ${cell(ours)} | ${cell(why)} |`);
  return ['| key | upstream | here | why |', '|---|---|---|---|', ...rows, ''];
}

function cell(text: string): string {
  return text.replaceAll('|', String.raw`\|`).replaceAll('*', String.raw`\*`);
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, '../docs/training-config.md'), trainingConfigDoc());
