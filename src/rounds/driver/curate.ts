/** The work of `vf-rounds bucket`, `review`, `focus` and `verify`. */
import type { ImageRef } from '../../core/message.ts';
import { askRows, type Question } from '../ask-rows.ts';
import { bucketStage, focusStage, type Measure, reviewStage } from '../curate-stages.ts';
import { readExclusions } from '../exclusions.ts';
import { readTraces } from '../read-traces.ts';
import { readRows, type RoundRow } from '../row-files.ts';
import type { HashedInput } from '../stage-files.ts';
import { type LowPrompt, lowPrompts, type Verified, type VerifyBounds, verifyQuestion, verifyStage } from '../verify-stage.ts';
import type { StageContext, StageModelOptions } from './round-commands.ts';
import { fileTarget, inputsOf, pathsOf, progressNote, rowsFile, runStage } from './run-stage.ts';
import { isBound, openStageModel } from './stage-model.ts';
import { TracedImages } from './traced-images.ts';

type Inputs = readonly HashedInput[];

interface Traced {
  /** Paths of `trace.jsonl`. */
  readonly trace: readonly string[];
  /** The rows that were trained on: a file, or a data set of the package. */
  readonly rows: string;
  readonly output: string;
}

interface BucketWork extends Traced {
  readonly low: number;
  readonly high: number;
  readonly measure: Measure;
  readonly leaveOutUnknown?: boolean;
}

interface ReviewWork extends Omit<Traced, 'trace'> {
  readonly exclude: readonly string[];
}

interface FocusWork extends Traced {
  readonly threshold: number;
  readonly measure: Measure;
  readonly add?: readonly string[];
  readonly exclude?: readonly string[];
  readonly leaveOutUnknown?: boolean;
}

type VerifyWork = Traced & Required<VerifyBounds> & StageModelOptions;

export async function bucket(options: BucketWork, context: StageContext): Promise<void> {
  const { low, high, measure, leaveOutUnknown: leavesOutUnknown = false } = options;
  const outputs = ['bucket-a.jsonl', 'bucket-b.jsonl', 'bucket-0.jsonl', 'review.jsonl'];
  const target = { stage: 'bucket', folder: options.output, name: 'bucket', outputs } as const;
  const work = async (inputs: Inputs) => {
    const traces = await readTraces(pathsOf(inputs, 'trace'), { withTexts: false });
    return bucketStage(traces, await readRows(rowsOf(inputs)), { low, high, measure, leavesOutUnknown });
  };
  return runStage({ target, inputs: await tracedInputs(options), work }, context);
}

export async function review({ rows, exclude, output }: ReviewWork, context: StageContext): Promise<void> {
  const target = fileTarget('review', output, ['excluded']);
  const work = async (inputs: Inputs) =>
    reviewStage(await readRows(rowsOf(inputs)), await readExclusions(pathsOf(inputs, 'exclusions')), {
      kept: target.file,
      excluded: target.others[0]!,
    });
  const inputs = [...inputsOf('rows', [await rowsFile(rows)]), ...inputsOf('exclusions', exclude)];
  return runStage({ target, inputs, work }, context);
}

export async function focus(options: FocusWork, context: StageContext): Promise<void> {
  const target = fileTarget('focus', options.output);
  const { threshold, measure, leaveOutUnknown: leavesOutUnknown = false } = options;
  const work = async (inputs: Inputs) => {
    const added: RoundRow[] = [];
    for (const path of options.add ?? []) added.push(...(await readRows(path)));
    const exclusions = await readExclusions(pathsOf(inputs, 'exclusions'));
    const traces = await readTraces(pathsOf(inputs, 'trace'), { withTexts: false });
    const chosen = { threshold, measure, added, exclusions, leavesOutUnknown, output: target.file };
    return focusStage(traces, await readRows(rowsOf(inputs)), chosen);
  };
  const further = [...inputsOf('added', options.add), ...inputsOf('exclusions', options.exclude)];
  return runStage({ target, inputs: [...(await tracedInputs(options)), ...further], work }, context);
}

export async function verify(options: VerifyWork, context: StageContext): Promise<void> {
  const target = fileTarget('verify', options.output);
  const { low, found, measure } = options;
  const work = async (inputs: Inputs) => {
    const paths = pathsOf(inputs, 'trace');
    const rows = await readRows(rowsOf(inputs));
    const bounds = { low, found, measure };
    const slim = await readTraces(paths, { withTexts: false });
    const prompts = lowPrompts(slim, rows, bounds);
    const about = { ...bounds, rows: rows.length, output: target.file };
    if (!(await isBound('vetter', options))) return verifyStage(slim, prompts, { ...about, verified: null, vetter: null });
    // Reads twice, so that only the texts of these prompts are in memory.
    const ids = new Set(prompts.map(({ id }) => id));
    const traces = await readTraces(paths, { withTexts: (prompt) => ids.has(prompt) });
    const images = await TracedImages.besides(paths);
    const questions = await verifyQuestions(lowPrompts(traces, rows, bounds), images);
    await using opened = await openStageModel('vetter', options, context, images);
    const verified = await askRows(questions, { ...opened, onAnswer: progressNote('verify', context) });
    return verifyStage(slim, prompts, { ...about, verified, vetter: opened.model.name });
  };
  return runStage({ target, inputs: await tracedInputs(options), work }, context);
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

async function tracedInputs({ trace, rows }: Pick<Traced, 'trace' | 'rows'>) {
  return [...inputsOf('trace', trace), ...inputsOf('rows', [await rowsFile(rows)])];
}

function rowsOf(inputs: Inputs): string {
  return pathsOf(inputs, 'rows')[0]!;
}
