/** The `vf-seed` command: turns problems with worked solutions into supervised rows, which a model can learn from before it trains on rollouts. */
import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { modelPath } from '../data/bundled-models.ts';
import { cachedModel } from '../data/cached-model.ts';
import { packageVersion } from '../data/package-root.ts';
import { SEED_FORMS, type SeedForm } from '../data/seed-row.ts';
import { findEnvironment } from '../registry/find-environment.ts';
import type { PromptRow } from '../schemas/demonstration-row.ts';
import { demonstrationOf } from '../trainer/sources/demonstration.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { contextLength } from '../sessions/policy/context-length.ts';
import { countText, plural } from '../reports/text/number-text.ts';
import { parseProgram } from './parse-program.ts';
import { findSeedRows, problemsText, readSeedRows, type SeedCounts } from './seed/read-seed-rows.ts';
import { seedCommands } from './seed/seed-commands.ts';
import { openDemonstrationTokenizer } from '../sessions/training/demonstration-tokenizer.ts';
import { writeOutput } from './write-output.ts';

const HELP = `
This is data to start from, not a random seed. LIMO (arXiv 2502.03387) taught a
model to reason at length with 817 careful solutions; training by reward can go
on from there. The stage is optional, and nothing runs it unless you do:

  vf-seed GAIR/LIMO -o seed.jsonl -m Qwen/Qwen3-4B
  vf-train self-play-code -m Qwen/Qwen3-4B --sft seed.jsonl ...
  vf-train self-play-code -m Qwen/Qwen3-4B --set model.initial_adapter=ADAPTER

vf-seed prints the last two with every flag. To try it with Node alone:

  vf-seed worked-problems -o seed.jsonl -m nano-base --for search-r1

<data> is one of
  worked-problems   five rows that come with the package
  rows.jsonl        a file with one row per line
  GAIR/LIMO         a data set of the Hugging Face hub: org/name[/config],
                    optionally with @revision

A row is {"question": ..., "solution": ..., "answer": ...}, all of them text.
Rows that are not are skipped and counted. The supervised row has a loss of
weight 1 on the solution and of --answer-weight on the answer and on the end of
the turn; the question has none. docs/supervised.md describes the rows and the
supervised steps.`;

interface Flags {
  readonly output: string;
  readonly model?: string;
  readonly maxLength?: string;
  readonly answerWeight: string;
  readonly form: SeedForm;
  readonly split: string;
  readonly limit?: string;
  readonly for: string;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-seed')
    .description('Turns problems with worked solutions into rows for vf-train --sft.')
    .argument('<data>', 'rows of question, solution and answer: a name, a file, a hub id')
    .requiredOption('-o, --output <file>', 'file to write; an existing file is replaced; - is stdout')
    .option('-m, --model <model>', "a model's directory, name or cached hub id: rows longer than its context are left out")
    .option('--max-length <n>', "most tokens of a row (default: the model's context); needs -m")
    .option('--answer-weight <x>', 'weight of the answer in the loss, where the solution has 1', '0.1')
    .addOption(
      new Option('--form <form>', 'how the model writes a solution: in <think> and <answer>, or as text').choices(SEED_FORMS).default('tags'),
    )
    .option('--split <name>', 'split of a bundled or hub data set', 'train')
    .option('--limit <n>', 'rows to write at most (default: all)')
    .option('--for <environment>', 'the environment of the commands that are printed', 'self-play-code')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const [data] = program.args as [string];
  const flags = program.opts<Flags>();
  // The printed commands would fail with an unknown one.
  findEnvironment(flags.for);
  const answerWeight = numberOf('--answer-weight', flags.answerWeight, { isWhole: false });
  const limit = flags.limit === undefined ? Infinity : numberOf('--limit', flags.limit, { isWhole: true });
  const { modelFolder, mostTokens, measure } = await lengthsOf(flags, context);
  const { signal } = context;
  const found = await findSeedRows({ data, split: flags.split, env: process.env, signal });
  const counts = await writeOutput(flags.output, (write) =>
    readSeedRows(
      found,
      { form: flags.form, answerWeight, limit, measure, mostTokens },
      { signal, write: (row) => write(`${JSON.stringify(row)}\n`) },
    ),
  );
  context.note(`vf-seed: ${describe(counts, { from: found.file, to: flags.output, mostTokens })}`);
  if (flags.output !== '-') printCommands(flags, { counts, modelFolder }, context);
  return EXIT.done;
}

function numberOf(flag: string, text: string, { isWhole }: { readonly isWhole: boolean }): number {
  const value = text.trim() === '' ? NaN : Number(text);
  if (Number.isFinite(value) && (isWhole ? Number.isInteger(value) && value >= 1 : value >= 0)) return value;
  throw new ConfigError(`${flag} must be ${isWhole ? 'a whole number of at least 1' : 'a number of at least 0'}, got ${JSON.stringify(text)}`);
}

interface Lengths {
  readonly modelFolder: string | null;
  /** Infinity without a model. */
  readonly mostTokens: number;
  readonly measure: ((row: PromptRow) => Promise<number>) | null;
}

const UNMEASURED: Lengths = { modelFolder: null, mostTokens: Infinity, measure: null };

/** The tokens of a row, as `vf-train` counts them, and the most that fit. */
async function lengthsOf({ model, maxLength }: Pick<Flags, 'model' | 'maxLength'>, { note }: CommandContext): Promise<Lengths> {
  const limit = maxLength === undefined ? Infinity : numberOf('--max-length', maxLength, { isWhole: true });
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
  return { modelFolder, mostTokens: Math.min(limit, contextLength(modelFolder) ?? Infinity), measure };
}

interface Places {
  readonly from: string;
  readonly to: string;
  readonly mostTokens: number;
}

function describe({ written, skipped, problems, long, longestTokens }: SeedCounts, { from, to, mostTokens }: Places): string {
  const size = longestTokens === null ? '' : `; the longest has ${countText(longestTokens)} tokens`;
  const left = [
    ...(skipped === 0 ? [] : [`${plural(skipped, 'unusable line')}: ${problemsText(skipped, problems)}`]),
    ...(long === 0 ? [] : [`${plural(long, 'row')} of more than ${countText(mostTokens)} tokens`]),
  ];
  const leftOut = left.length === 0 ? '' : `; left out: ${left.join('; ')}`;
  return `${plural(written, 'row')} of ${from} written to ${to === '-' ? 'stdout' : to}${size}${leftOut}`;
}

/** The commands go to stdout, so that they can be taken from there. */
function printCommands(
  flags: Flags,
  { counts, modelFolder }: { readonly counts: SeedCounts; readonly modelFolder: string | null },
  { note }: CommandContext,
): void {
  const { model = null, output, for: environment } = flags;
  const { train, use } = seedCommands({ file: output, rows: counts.written, model, modelFolder, environment });
  note('next, the supervised steps, which end with an adapter:');
  process.stdout.write(`${train}\n`);
  note('then any run that starts from it; in place of ADAPTER, the path that vf-train printed:');
  process.stdout.write(`${use}\n`);
}

await runCommand('vf-seed', main);
