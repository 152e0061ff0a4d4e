/** `vf-seed`: writes the supervised rows and prints the commands that train on them. */
import { existsSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import { modelPath } from '../../data/bundled-models.ts';
import { cachedModel } from '../../data/cached-model.ts';
import type { SeedForm } from '../../data/seed-row.ts';
import { findEnvironment } from '../../registry/find-environment.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { PromptRow } from '../../schemas/demonstration-row.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { openDemonstrationTokenizer } from '../../sessions/training/demonstration-tokenizer.ts';
import { demonstrationOf } from '../../trainer/sources/demonstration.ts';
import type { CommandContext } from '../command-line.ts';
import { isStdout, writeOutput } from '../write-output.ts';
import { findSeedRows, problemsText, readSeedRows, type SeedCounts } from '../../data/read-seed-rows.ts';
import { seedCommands } from '../../reports/training/seed-commands.ts';

interface SeedOptions {
  readonly output: string;
  readonly model?: string;
  /** Length in tokens. */
  readonly maxLength?: number;
  readonly answerWeight: number;
  readonly form: SeedForm;
  readonly split: string;
  readonly limit?: number;
  readonly for: string;
}

export async function writeSeed(data: string, options: SeedOptions, context: CommandContext): Promise<void> {
  const { output, form, answerWeight, split, limit = Infinity } = options;
  // With an unknown environment, the printed commands would fail.
  findEnvironment(options.for);
  const { modelFolder, mostTokens, measure } = await lengthsOf(options, context);
  const { signal } = context;
  const found = await findSeedRows({ data, split, env: process.env, signal });
  const counts = await writeOutput(output, (write) =>
    readSeedRows(found, { form, answerWeight, limit, measure, mostTokens }, { signal, write: (row) => write(`${JSON.stringify(row)}\n`) }),
  );
  context.note(`vf-seed: ${describe(counts, { from: found.file, to: output, mostTokens })}`);
  if (isStdout(output)) return;
  context.saved = output;
  printCommands(options, { counts, modelFolder }, context);
}

interface Lengths {
  readonly modelFolder: string | null;
  /** Infinity without a model. */
  readonly mostTokens: number;
  readonly measure: ((row: PromptRow) => Promise<number>) | null;
}

const UNMEASURED: Lengths = { modelFolder: null, mostTokens: Infinity, measure: null };

/** The tokens of a row, as `vf-train` counts them, and the limit. */
async function lengthsOf({ model, maxLength }: Pick<SeedOptions, 'model' | 'maxLength'>, { note }: CommandContext): Promise<Lengths> {
  if (model === undefined) {
    if (maxLength !== undefined) throw new ConfigError('--max-length is a number of tokens, which only a model can count. Name the model with -m');
    return UNMEASURED;
  }
  const named = modelPath(model);
  const modelFolder = existsSync(named) ? named : cachedModel(model, process.env);
  if (modelFolder === null) {
    if (maxLength !== undefined || !/^[\w.-]+\/[\w.-]+$/.test(model))
      throw new ConfigError(
        `The model ${model} is not on this machine. Give a directory, a bundled name (nano-base) or a hub id that is in the cache`,
      );
    note(`vf-seed: ${model} is not on this machine, so the lengths of the rows are unknown; vf-train leaves out those that are too long`);
    return UNMEASURED;
  }
  const tokenizer = await openDemonstrationTokenizer(modelFolder, 'chat');
  const measure = async (row: PromptRow) => (await demonstrationOf({ row, place: String(row.example_id) }, tokenizer)).ids.length;
  return { modelFolder, mostTokens: Math.min(maxLength ?? Infinity, modelFacts(modelFolder).contextLength ?? Infinity), measure };
}

interface Places {
  readonly from: string;
  readonly to: string;
  readonly mostTokens: number;
}

function describe({ written, skipped, problems, long, longestTokens }: SeedCounts, { from, to, mostTokens }: Places): string {
  const size = longestTokens === null ? '' : `; the longest has ${plural(longestTokens, 'token')}`;
  const left = [
    ...(skipped === 0 ? [] : [`${plural(skipped, 'unusable line')}: ${problemsText(skipped, problems)}`]),
    ...(long === 0 ? [] : [`${plural(long, 'row')} of more than ${plural(mostTokens, 'token')}`]),
  ];
  const leftOut = left.length === 0 ? '' : `; left out: ${left.join('; ')}`;
  return `${plural(written, 'row')} of ${from} written to ${isStdout(to) ? 'stdout' : to}${size}${leftOut}`;
}

/** The commands go to stdout, so that they can be taken from there. */
function printCommands(
  options: SeedOptions,
  { counts, modelFolder }: { readonly counts: SeedCounts; readonly modelFolder: string | null },
  { note }: CommandContext,
): void {
  const { model = null, output, for: environment } = options;
  const { train, use } = seedCommands({ file: output, rows: counts.written, model, modelFolder, environment });
  note('next, the supervised steps, which end with an adapter:');
  process.stdout.write(`${train}\n`);
  note('then any run that starts from it; in place of ADAPTER, the path that vf-train printed:');
  process.stdout.write(`${use}\n`);
}
