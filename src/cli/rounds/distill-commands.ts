/** `vf-rounds extract`, `vet`, `rewrite` and `finalize`: turn rollouts into demonstrations. */
import { type Command, Option } from 'commander';
import { ConfigError } from '../../core/errors.ts';
import { readTextFile } from '../../files/read-document.ts';
import { askRows } from '../../rounds/ask-rows.ts';
import { readDemonstrationRows } from '../../rounds/demonstration-rows.ts';
import { extractStage, rareSuccesses } from '../../rounds/extract-stage.ts';
import { finalizeStage } from '../../rounds/finalize-stage.ts';
import { readTraces } from '../../rounds/read-traces.ts';
import { givenRewrites, isSpoiled, rewriteQuestion, rewriteStage } from '../../rounds/rewrite-stage.ts';
import { vetQuestion, vetStage } from '../../rounds/vet-stage.ts';
import { collected, named, wholeNumber } from '../serve/option-values.ts';
import { numberFrom } from './option-numbers.ts';
import { addRoleOptions, openStageModel, type RoleOptions } from './stage-model.ts';
import { fileTarget, inputsOf, pathsOf, progressNote, type RoundAction, runStage } from './stage-command.ts';

const EXTRACT_HELP = `
Takes prompts where some rollouts succeed, but at most half: what these did is
worth repeating, and the policy does not do it reliably yet. A success has a
judge score of 1; at most the 4 best of a prompt are taken. A rollout becomes a
demonstration if every turn thinks and then acts with a tag of visual-rag
(<search>, <bbox>, <search_complete>), and the last one completes. What an
environment of your own must write for this: docs/rounds.md.

--success-only is DDAI's stricter variant: only successes with an NDCG above 0
whose tools all answered; "finalize" then takes the best 4.
After phase 1, which asks no judge: --success reward --threshold 0.9.

Output: one row {"uid", "format_version": "v1", "messages", ...} per line, with
the further fields that "vet" and "finalize" need.`;

const VET_HELP = `
The model sees question, queries, boxes and excerpts of the thinks, and passes
or fails each row; it changes none. NAME.vetted.jsonl next to the output has
every verdict. Replies are kept in NAME.replies.jsonl, so that a command that
is run again makes only new requests.
  vf-rounds vet candidates.jsonl -o passed.jsonl \\
      --role vetter=gpt-5-mini@https://api.openai.com/v1`;

const REWRITE_HELP = `
Leaves out a row if a think contains the tag of an action. From a rewrite, only
the thinks are taken. A think stays as it was if its rewrite contains the tag of
an action, or claims to have seen a picture where the original does not. A
rewrite with another number of thinks is not used.

--rewritten takes rewrites that were made elsewhere: rows with the same uids
whose messages may differ in thinks alone.`;

const FINALIZE_HELP = `
The best rows of each prompt: by NDCG, then the fewest searches, the fewest
boxes, the shortest. Rows with failed tools are left out.

Output: rows {"uid", "format_version", "messages"} for vf-train --sft, and in
NAME.golden.jsonl the golden trajectory of each prompt: queries, pages, boxes,
where it stopped, answer and scores of its best row.`;

type Inputs = Parameters<typeof pathsOf>[0];

export function addDistillCommands(program: Command, act: (action: RoundAction) => void): void {
  addExtract(program, act);
  addVet(program, act);
  addRewrite(program, act);
  addFinalize(program, act);
}

interface ExtractFlags {
  readonly trace: readonly string[];
  readonly output: string;
  readonly success: 'judge' | 'reward';
  readonly threshold: number;
  readonly minRate?: number;
  readonly maxRate: number;
  readonly maxTurns?: number;
  readonly top?: number;
  readonly successOnly?: true;
  readonly system?: string;
}

function addExtract(program: Command, act: (action: RoundAction) => void): void {
  program
    .command('extract')
    .description('Selects rollouts that succeed where success is rare, as demonstrations')
    .requiredOption('--trace <file>', "a run's trace.jsonl; may be repeated", collected)
    .requiredOption('-o, --output <file>', 'file for the rows', named)
    .addOption(new Option('--success <name>', 'what a success is measured by').choices(['judge', 'reward']).default('judge'))
    .option('--threshold <x>', 'from which value on it is one', numberFrom(-1e9, 1e9), 1)
    .option('--min-rate <x>', 'lowest share of successes of a prompt (default: above 0)', numberFrom(0, 1))
    .option('--max-rate <x>', 'highest share of successes of a prompt', numberFrom(0, 1), 0.5)
    .option('--max-turns <n>', 'most turns of the policy in a rollout', wholeNumber(1, 1_000_000))
    .option('--top <n>', 'most rollouts of a prompt (default: 4; all with --success-only)', wholeNumber(1, 1_000_000))
    .option('--success-only', 'only successes with an NDCG above 0 and without failed tools')
    .option('--system <file>', "a system prompt, for DDAI's traces, which have none", named)
    .addHelpText('after', EXTRACT_HELP)
    .action(({ trace, output, system, ...flags }: ExtractFlags) => {
      const target = fileTarget('extract', output);
      const work = async (inputs: Inputs) => {
        const paths = pathsOf(inputs, 'trace');
        const systemPrompt = system === undefined ? {} : { systemPrompt: (await readTextFile(system)).replace(/\n$/, '') };
        const options = { ...flags, ...systemPrompt, output: target.file };
        // Reads twice, so that only the texts of selected prompts are in memory.
        const kept = rareSuccesses((await readTraces(paths, { withTexts: false })).rollouts, options);
        const prompts = new Set(kept.map(({ prompt }) => prompt));
        const traces = await readTraces(paths, { withTexts: (prompt) => prompts.has(prompt) });
        return extractStage(traces, rareSuccesses(traces.rollouts, options), options);
      };
      act((context) =>
        runStage({ target, inputs: [...inputsOf('trace', trace), ...inputsOf('system', system === undefined ? [] : [system])], work }, context),
      );
    });
}

function addVet(program: Command, act: (action: RoundAction) => void): void {
  const command = program
    .command('vet')
    .description('Asks a model whether each demonstration is good')
    .argument('<rows...>', 'rows of "extract" or "rewrite"')
    .requiredOption('-o, --output <file>', 'file for the rows that pass', named);
  addRoleOptions(command, 'vetter')
    .addHelpText('after', VET_HELP)
    .action((paths: readonly string[], options: RoleOptions) => {
      const target = fileTarget('vet', options.output, ['vetted']);
      act((context) =>
        runStage(
          {
            target,
            inputs: inputsOf('rows', paths),
            work: async (inputs) => {
              const rows = await readDemonstrationRows(pathsOf(inputs, 'rows'));
              await using opened = await openStageModel('vetter', options, context);
              const asking = { ...opened, onAnswer: progressNote('vet', context) };
              const vettings = await askRows(rows.map(vetQuestion), asking);
              return vetStage(rows, vettings, { vetter: opened.model.name, output: target.file, report: target.others[0]! });
            },
          },
          context,
        ),
      );
    });
}

function addRewrite(program: Command, act: (action: RoundAction) => void): void {
  const command = program
    .command('rewrite')
    .description('Words thinks better; everything else stays byte for byte')
    .argument('<rows...>', 'rows of "extract" or "vet"')
    .requiredOption('-o, --output <file>', 'file for the rows', named)
    .option('--rewritten <file>', 'rewrites that were made elsewhere, in place of a model', named);
  addRoleOptions(command, 'rewriter')
    .addHelpText('after', REWRITE_HELP)
    .action((paths: readonly string[], options: RoleOptions & { rewritten?: string }) => {
      const target = fileTarget('rewrite', options.output);
      const { rewritten } = options;
      act((context) =>
        runStage(
          {
            target,
            inputs: [...inputsOf('rows', paths), ...inputsOf('rewritten', rewritten === undefined ? [] : [rewritten])],
            work: async (inputs) => {
              if (rewritten !== undefined && options.role !== undefined)
                throw new ConfigError('--rewritten and --role exclude each other; leave one of them out');
              const rows = await readDemonstrationRows(pathsOf(inputs, 'rows'));
              const clean = rows.filter((row) => !isSpoiled(row));
              if (rewritten !== undefined) {
                const given = givenRewrites(rows, await readDemonstrationRows([rewritten])).filter((_, i) => !isSpoiled(rows[i]!));
                return rewriteStage(rows, given, { rewriter: 'given', output: target.file });
              }
              await using opened = await openStageModel('rewriter', options, context);
              const asking = { ...opened, onAnswer: progressNote('rewrite', context) };
              const rewrites = await askRows(clean.map(rewriteQuestion), asking);
              return rewriteStage(rows, rewrites, { rewriter: opened.model.name, output: target.file });
            },
          },
          context,
        ),
      );
    });
}

function addFinalize(program: Command, act: (action: RoundAction) => void): void {
  program
    .command('finalize')
    .description('Selects the best few of each prompt, as rows for vf-train --sft')
    .argument('<rows...>', 'rows of "extract", "vet" or "rewrite"')
    .requiredOption('-o, --output <file>', 'file for the rows', named)
    .option('--most <n>', 'most rows of a prompt', wholeNumber(1, 1_000_000), 4)
    .option('--system-errors <n>', 'most failed tools in a row', wholeNumber(0, 1_000_000), 0)
    .addHelpText('after', FINALIZE_HELP)
    .action((paths: readonly string[], { output, most, systemErrors }: { output: string; most: number; systemErrors: number }) => {
      const target = fileTarget('finalize', output, ['golden']);
      const work = async (inputs: Inputs) =>
        finalizeStage(await readDemonstrationRows(pathsOf(inputs, 'rows')), { most, systemErrors, output: target.file, golden: target.others[0]! });
      act((context) => runStage({ target, inputs: inputsOf('rows', paths), work }, context));
    });
}
