/** Writes docs/training-config.md from the schema and the presets: `node --conditions=vf-search-source scripts/training-config-doc.ts`. A test checks that it is current. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tomlValue } from '../src/reports/training/toml-value.ts';
import { allowedText, type ConfigTable, configTable } from '../src/schemas/config-keys.ts';
import { trainingConfigSchema } from '../src/schemas/training-config.ts';
import { lossTableSchema } from '../src/schemas/training-algorithm-config.ts';
import { roleTableSchema } from '../src/schemas/roles-config.ts';
import { bundledPresets } from '../src/sessions/environment/presets.ts';
import type { Preset } from '../src/trainer/config/preset.ts';
import { CHANGEABLE_ON_RESUME, CHANGEABLE_ROLE_KEYS } from '../src/trainer/config/resume-config.ts';

const INTRODUCTION = `# Configuration of a training run

<!-- Written by scripts/training-config-doc.ts from src/schemas/training-config.ts and the environments' presets. Do not edit. -->

A TOML file, flags, or both configure a run: \`vf-train run.toml --set optimizer.learning_rate=1e-5\`. Keys are the same everywhere.

1. **Precedence.** Defaults < the world of the small model (\`dataset = "fact-world"\` for nano-base in search-r1; \`preset.world\` of the environment's preset \`laptop\`) < preset (\`--preset\`, or \`preset = "..."\` at the top of the file) < settings in the environment's arguments ([adding-an-environment.md](adding-an-environment.md#arguments-that-set-the-trainer)) < file < \`VF_BASE_URL\` (with \`VF_MODEL\` and \`VF_API_KEY\`, if
   nothing else names a server) < flags < \`--set\`. Tables are merged key by key, \`args\`, \`eval_args\` and \`env\` too. Naming another environment drops the arguments
   from preset and file.
2. **Null.** TOML has no null: leave the key out. For a number whose default is not null, write \`"none"\` in a file, or \`--set key=null\`.
3. **Inspection.** \`--show-config\` prints the complete configuration with the source of every value, \`--help-config\` this list. The folder of a run holds the configuration as
   \`config.toml\`, with secrets replaced by \`***\`; a resumed run needs them again.
4. **Rows.** The environment defines which rows train and which are held out (Search-R1: the splits \`train\` and \`test\`). \`eval_args\` opens a separate environment for evaluations.
5. **Paths**, those of modules too, are relative to the folder in which the command runs.
6. **Sharing.** \`extends = "other.toml"\` at the top of a file or preset takes everything that the file leaves out from another one, named relative to the file's own folder: tables are merged key by key,
   \`[[preset.differences]]\` by their \`key\`, and any other value is replaced. A run's \`config.toml\` has the result and extends nothing.
7. **Errors** are one line with the key, its source, its value and what is allowed. Exit code 2.

A minimal file:

\`\`\`toml
[environment]
id = "search-r1"

[model]
path = "models/nano-base"

[policy]
base_url = "http://127.0.0.1:8000/v1"   # or a table [policy.launch], which starts vLLM, or [policy.embedded], which samples in this process
\`\`\`

With \`[policy.embedded]\` and \`backend.kind = "embedded"\` (\`--embedded\` sets both), one engine in this process samples and trains, and only Node is needed. Each can also be combined
with PyTorch or vLLM, respectively.

## Several trainings in one file

\`\`\`toml
preset = "laptop"
steps = 8

[environment]
id = "search-r1"

[[ablation]]                              # 2 × 3 runs
name = "two-learning-rates"               # default: the name of the file
seeds = [0, 1, 2]                         # or seeds = 3; without it, the seed above
"rollouts.temperature" = 0.9              # a fixed setting of these runs; a key cannot be fixed and swept

[ablation.sweep]
"optimizer.learning_rate" = [1e-3, 3e-4]  # or a table [ablation.sweep.optimizer]; preset can be swept too
\`\`\`

\`vf-train FILE\` plays a run for every combination of the lists under \`[ablation.sweep]\` with every seed, one after the other, and ends with a table of held-out rewards over seeds and what differs
([compare.md](compare.md#trainings)). \`configs/train/two-learning-rates.toml\` is an example that a laptop plays in two minutes. A file may have several \`[[ablation]]\` tables; settings above them are those of every run.

- Every run is resolved, and every environment, loss and adapter opened, before the first run begins. A wrong key or value ends the command with exit code 2 and names the run.
- \`--dry-run\` lists the runs with their sizes. Flags override the file, but not what it sweeps. \`--name\` and \`--push\` are for one run.
- Each run has a folder and a name of its own, \`<ablation>: <its settings>\`; \`<output_dir>/train/ablations/<name>--<id>/\` holds \`ablation.json\` (runs, states, reasons) and \`table.md\`. Runs share a policy server only if it already runs (\`-b\`).
- A run that stops or fails does not end the others. The table shows its reason and no value, and the exit code is 1.
- \`vf-train FILE -R\` continues the newest ablation of that name: finished runs are not repeated, one that was killed, stopped or failed continues from its last checkpoint, and combinations that are new in the file are added. \`vf-train -R RUN\` continues one of its runs alone.
- \`--json\` prints \`{"ablations": [{"name", "directory", "runs", "comparison"}]}\`: the summary of each run, null for one that failed, and the table.
`;

/** The whole document. */
export function trainingConfigDoc(): string {
  return `${[
    INTRODUCTION,
    '## Keys',
    '',
    ...tableLines(configTable(trainingConfigSchema)),
    ...tableLines(configTable(lossTableSchema, 'losses.<name>')),
    ...tableLines(configTable(roleTableSchema, 'roles.<role>')),
    ...presetLines(),
    '## What may change when a run is resumed',
    '',
    `${CHANGEABLE_ON_RESUME.map((key) => `\`${key}\``).join(', ')}; of a role ${CHANGEABLE_ROLE_KEYS.map((key) => `\`${key}\``).join(', ')}; in a run of supervised steps alone also \`sft.steps\`. With \`--allow-changes\` also \`optimizer\` and \`algorithm\`. Any other change is refused, with the`,
    'old and the new value: a checkpoint holds weights, moments, the position in the data and the seed, so the settings that determined them must stay.',
    '',
    'With `schedule = "linear"` or `"cosine"`, another number of steps changes the learning rate of every step after the last checkpoint, including the steps that a resumed run repeats.',
  ].join('\n')}\n`;
}

function tableLines({ path, description, optional, keys, tables }: ConfigTable): string[] {
  const heading = path === '' ? [] : [`### \`[${path}]\``, '', `${description}${optional ? ' Left out by default.' : ''}`, ''];
  const rows = keys.map(({ name, schema, description: meaning }) => {
    const fallback =
      schema.default === undefined
        ? /^(roles|losses)\./.test(path)
          ? 'not set'
          : 'required'
        : schema.default === null
          ? 'not set'
          : `\`${tomlValue(schema.default)}\``;
    return `| \`${name}\` | ${cell(allowedText(schema))} | ${fallback.replaceAll('|', String.raw`\|`)} | ${cell(meaning)} |`;
  });
  const table = rows.length === 0 ? [] : ['| key | value | default | meaning |', '|---|---|---|---|', ...rows, ''];
  return [...heading, ...table, ...tables.flatMap(tableLines)];
}

function presetLines(): string[] {
  return [
    '## Presets',
    '',
    'First runs, and published recipes within the limits of LoRA and an HTTP server. An environment brings its presets as `presets/<name>.toml`; those with `any_environment` can also be',
    'named for other environments, and without one. A preset may set any key; file, flags and `--set` override it.',
    '`vf-train <environment> --preset NAME --show-config` prints the values.',
    '',
    ...bundledPresets().flatMap(({ name, environment, summary, differences }) => [
      `### \`${environment} --preset ${name}\``,
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
