/** `vf-rounds bucket`, `review`, `focus` and `verify`: select the rows for the next training, and those that must stay out of it. */
import { type Command, Option } from 'commander';
import type { ImageRef } from '../../core/message.ts';
import { askRows, type Question } from '../../rounds/ask-rows.ts';
import { bucketStage, focusStage, reviewStage, type Measure } from '../../rounds/curate-stages.ts';
import { readExclusions } from '../../rounds/exclusions.ts';
import { readTraces } from '../../rounds/read-traces.ts';
import { readPlayedRows, readRows, type RoundRow } from '../../rounds/row-files.ts';
import { type LowPrompt, lowPrompts, type Verified, verifyQuestion, verifyStage } from '../../rounds/verify-stage.ts';
import { TracedImages } from './traced-images.ts';
import { collected, named } from '../serve/option-values.ts';
import { numberFrom } from './option-numbers.ts';
import { addRoleOptions, isBound, openStageModel, type RoleOptions } from './stage-model.ts';
import { fileTarget, inputsOf, pathsOf, progressNote, type RoundAction, rowsFile, runStage } from './stage-command.ts';

const BUCKET_HELP = `
The mean NDCG of a prompt's rollouts decides (0 for a rollout whose format is
invalid). Bucket A, from 0.1 to 0.7 with both bounds, is in reach: its rows go
from the easiest prompt to the hardest, with the mean in extra_info.phase1_ndcg.
Bucket B, above, is learned; bucket 0, below, is out of reach, or its rows are
wrong: review.jsonl lists them with what the trace says of each. Set exclude and
reason there and give the list to "vf-rounds review".

Output: bucket-a.jsonl, bucket-b.jsonl, bucket-0.jsonl, review.jsonl and
bucket.manifest.json in the folder of -o.`;

const REVIEW_HELP = `
A list has one {"id": ..., "exclude": true, "reason": ...} per line; rows with
"exclude": false stay. review.jsonl of "bucket" and the output of "verify" are
such lists. A row may be in one list only.

Output: the file of -o, and next to it NAME.excluded.jsonl with the reason of
each row in extra_info.excluded.`;

const FOCUS_HELP = `
Rows keep their order: first those of --rows whose mean reward is at most the
threshold, then those of --add, without those that a list of --exclude leaves
out. DDAI's round 1 is the hard part of bucket A and the reviewed bucket 0:
  vf-rounds focus --trace $T --rows bucket-a.jsonl \\
      --add bucket-0-kept.jsonl -o round-1.jsonl
Its round 2 has the rows that then score at most 0.3, without wrong references:
  vf-rounds focus --trace $T1 --rows round-1.jsonl --threshold 0.3 \\
      --exclude verified.jsonl -o round-2.jsonl`;

const VERIFY_HELP = `
Lists the prompts whose mean judge score is at most 0.3, in this order: right
pages and score 0; right pages and a low score; wrong pages (mean NDCG below
0.5). With a vetter, each gets a verdict:
  GT_ERROR, UNCERTAIN, BOTH_WRONG       leave the row out
  GEN_ERROR, RETRIEVAL_ERROR, FORMAT_DIFF   keep it
Without a vetter, fill in the list yourself: set exclude and reason. For runs
without a judge, such as phase 1: --measure reward.
  vf-rounds verify --trace $T --rows round-1.jsonl -o verified.jsonl \\
      --role vetter=gpt-5-mini@https://api.openai.com/v1`;

interface TraceOptions {
  readonly trace: readonly string[];
  readonly rows: string;
  readonly output: string;
}

export function addCurateCommands(program: Command, act: (action: RoundAction) => void): void {
  addBucket(program, act);
  addReview(program, act);
  addFocus(program, act);
  addVerify(program, act);
}

function addBucket(program: Command, act: (action: RoundAction) => void): void {
  traced(program.command('bucket').description('Divides prompts into learned, in reach and out of reach'), 'the rows that were trained on')
    .requiredOption('-o, --output <folder>', 'folder for the files', named)
    .option('--low <x>', 'lowest mean of bucket A', numberFrom(0, 1), 0.1)
    .option('--high <x>', 'highest mean of bucket A', numberFrom(0, 1), 0.7)
    .addOption(measure('ndcg'))
    .option('--leave-out-unknown', 'count prompts that the rows do not have, instead of refusing them')
    .addHelpText('after', BUCKET_HELP)
    .action((options: TraceOptions & { low: number; high: number; measure: Measure; leaveOutUnknown?: true }) => {
      const target = {
        stage: 'bucket',
        folder: options.output,
        name: 'bucket',
        outputs: ['bucket-a.jsonl', 'bucket-b.jsonl', 'bucket-0.jsonl', 'review.jsonl'],
      } as const;
      const { low, high, measure: by, leaveOutUnknown: leavesOutUnknown = false } = options;
      const work = async (inputs: Inputs) =>
        bucketStage(await readTraces(pathsOf(inputs, 'trace'), { withTexts: false }), await readPlayedRows(rowsOf(inputs)), {
          low,
          high,
          measure: by,
          leavesOutUnknown,
        });
      act(async (context) => runStage({ target, inputs: await tracedInputs(options), work }, context));
    });
}

type Inputs = Parameters<typeof pathsOf>[0];

function addReview(program: Command, act: (action: RoundAction) => void): void {
  program
    .command('review')
    .description('Leaves out the rows that lists name, with their reasons')
    .requiredOption('--rows <file>', 'rows: JSONL, Parquet, or a data set of the package (its split train)', named)
    .requiredOption('--exclude <file>', 'a list of decisions; may be repeated', collected)
    .requiredOption('-o, --output <file>', 'file for the rows that stay', named)
    .addHelpText('after', REVIEW_HELP)
    .action((options: { rows: string; exclude: readonly string[]; output: string }) => {
      const target = fileTarget('review', options.output, ['excluded']);
      const work = async (inputs: Inputs) =>
        reviewStage(await readRows(rowsOf(inputs)), await readExclusions(pathsOf(inputs, 'exclusions')), {
          kept: target.file,
          excluded: target.others[0]!,
        });
      act(async (context) => {
        const inputs = [...inputsOf('rows', [await rowsFile(options.rows)]), ...inputsOf('exclusions', options.exclude)];
        return runStage({ target, inputs, work }, context);
      });
    });
}

interface FocusFlags {
  readonly threshold: number;
  readonly measure: Measure;
  readonly add?: readonly string[];
  readonly exclude?: readonly string[];
  readonly leaveOutUnknown?: true;
}

function addFocus(program: Command, act: (action: RoundAction) => void): void {
  traced(program.command('focus').description('Selects the rows whose prompts are still hard'), 'rows to choose from')
    .requiredOption('-o, --output <file>', 'file for the rows', named)
    .option('--threshold <x>', 'highest mean of a hard prompt', numberFrom(-1e9, 1e9), 0.2)
    .addOption(measure('reward'))
    .option('--add <file>', 'rows that are added whole; may be repeated', collected)
    .option('--exclude <file>', 'a list of rows to leave out; may be repeated', collected)
    .option('--leave-out-unknown', 'count listed rows that are not there, instead of refusing them')
    .addHelpText('after', FOCUS_HELP)
    .action((options: TraceOptions & FocusFlags) => {
      const target = fileTarget('focus', options.output);
      const { threshold, measure: by, leaveOutUnknown: leavesOutUnknown = false } = options;
      const work = async (inputs: Inputs) => {
        const added: RoundRow[] = [];
        for (const path of options.add ?? []) added.push(...(await readPlayedRows(path)));
        const exclusions = await readExclusions(pathsOf(inputs, 'exclusions'));
        const traces = await readTraces(pathsOf(inputs, 'trace'), { withTexts: false });
        const chosen = { threshold, measure: by, added, exclusions, leavesOutUnknown, output: target.file };
        return focusStage(traces, await readPlayedRows(rowsOf(inputs)), chosen);
      };
      const further = [...inputsOf('added', options.add), ...inputsOf('exclusions', options.exclude)];
      act(async (context) => runStage({ target, inputs: [...(await tracedInputs(options)), ...further], work }, context));
    });
}

interface VerifyFlags {
  readonly low: number;
  readonly found: number;
  readonly measure: Exclude<Measure, 'ndcg'>;
}

function addVerify(program: Command, act: (action: RoundAction) => void): void {
  const command = traced(
    program.command('verify').description('Finds why prompts score low: pages, generator, or reference'),
    'the rows that were trained on',
  )
    .requiredOption('-o, --output <file>', 'file for the list', named)
    .option('--low <x>', 'highest mean score that is looked at', numberFrom(0, 1), 0.3)
    .option('--found <x>', 'lowest mean NDCG of found pages', numberFrom(0, 1), 0.5)
    .addOption(new Option('--measure <name>', 'whose mean decides').choices(['judge', 'reward']).default('judge'));
  addRoleOptions(command, 'vetter')
    .addHelpText('after', VERIFY_HELP)
    .action((options: TraceOptions & RoleOptions & VerifyFlags) => {
      const target = fileTarget('verify', options.output);
      const { low, found, measure: by } = options;
      act(async (context) =>
        runStage(
          {
            target,
            inputs: await tracedInputs(options),
            work: async (inputs) => {
              const paths = pathsOf(inputs, 'trace');
              const rows = await readPlayedRows(rowsOf(inputs));
              const bounds = { low, found, measure: by };
              const slim = await readTraces(paths, { withTexts: false });
              const prompts = lowPrompts(slim, rows, bounds);
              const about = { ...bounds, rows: rows.length, output: target.file };
              if (!(await isBound('vetter', options))) return verifyStage(slim, prompts, { ...about, verified: null, vetter: null });
              // Twice, so that only the texts of these prompts are in memory.
              const ids = new Set(prompts.map(({ id }) => id));
              const traces = await readTraces(paths, { withTexts: (prompt) => ids.has(prompt) });
              const images = await TracedImages.besides(paths);
              const questions = await verifyQuestions(lowPrompts(traces, rows, bounds), images);
              await using opened = await openStageModel('vetter', options, context, images);
              const onAnswer = progressNote('verify', context);
              const verified = await askRows(questions, { ...opened, onAnswer });
              return verifyStage(slim, prompts, { ...about, verified, vetter: opened.model.name });
            },
          },
          context,
        ),
      );
    });
}

async function verifyQuestions(prompts: readonly LowPrompt[], images: TracedImages): Promise<Question<Verified>[]> {
  const questions: Question<Verified>[] = [];
  for (const prompt of prompts) {
    const pictures: ImageRef[] = [];
    for (const each of prompt.evidence) if ('picture' in each) pictures.push(await images.named(each.picture));
    questions.push(verifyQuestion(prompt, pictures));
  }
  return questions;
}

function traced(command: Command, rows: string): Command {
  return command
    .requiredOption('--trace <file>', "a run's trace.jsonl; may be repeated", collected)
    .requiredOption('--rows <file>', `${rows}: JSONL, Parquet, or a data set of the package (its split train)`, named);
}

async function tracedInputs({ trace, rows }: TraceOptions) {
  return [...inputsOf('trace', trace), ...inputsOf('rows', [await rowsFile(rows)])];
}

function rowsOf(inputs: Inputs): string {
  return pathsOf(inputs, 'rows')[0]!;
}

function measure(preset: Measure): Option {
  return new Option('--measure <name>', 'whose mean decides').choices(['ndcg', 'judge', 'reward']).default(preset);
}
