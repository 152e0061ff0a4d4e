/** Prints the summary of a run, as text or as a JSON object. */
import { trainingSummaryToWire } from '../../schemas/training-summary.ts';
import { displayPath } from '../../reports/text/own-command.ts';
import { plural } from '../../reports/text/number-text.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { isUnderRounds } from '../command-line.ts';
import type { TrainDisplay } from './train-arguments.ts';
import { metricValue } from '../../trainer/training-observer.ts';
import { nextTrainingCommands, restingNotice } from '../../reports/training/next-training-commands.ts';
import { renderTrainingSummary } from '../../reports/training/render-training-summary.ts';
import { supervisedCurves } from '../../reports/training/supervised-curves.ts';
import { readTrainingSummary } from '../../reports/training/training-summary.ts';
import { ownPresets } from '../../sessions/environment/presets.ts';
import { concludeTraining } from '../../sessions/training/conclude-training.ts';
import type { FinishedRun } from '../../sessions/training/finished-run.ts';
import type { TrainingSetup } from '../../sessions/training/resolve-training.ts';
import type { EndedTraining } from '../../sessions/training/run-training.ts';
import { jsonLine, printable } from '../../reports/text/terminal-text.ts';

export interface ReportOptions {
  readonly display: TrainDisplay;
  readonly note: (line: string) => void;
  /** Removes secrets from text. */
  readonly redact: (text: string) => string;
}

export async function reportTraining(ended: EndedTraining, { display, note, redact }: ReportOptions): Promise<void> {
  const { setup, evaluationLabel, evaluationRows } = ended;
  const { resumeFlags = [], correct = null, newRun = null, resting = [] } = ended.outcome;
  const { config, wire } = setup;
  const { summary, rows } = await concludeTraining(ended, { variables: process.env, redact, warn: (line) => note(`vf-train: ${line}`) });
  const notice = restingNotice(resting, summary.model);
  if (notice !== null) note(`vf-train: ${notice}`);
  const options = {
    backend: wire.backend.kind,
    rows: evaluationRows,
    presets: ownPresets(config.environment.id),
    resumeFlags,
    correct,
    newRun,
    resting,
  };
  const next = nextTrainingCommands(summary, config, options).map(({ why, command }) => ({ why, command: redact(command) }));
  if (display.json) {
    process.stdout.write(jsonLine(trainingSummaryToWire(summary)));
    const [first] = summary.resumable && !isUnderRounds() ? next : [];
    if (first !== undefined) note(`vf-train: ${first.why} with ${first.command}`);
    return;
  }
  const paint = paintFor(process.stdout, { plain: display.plain });
  const columns = process.stdout.columns ?? 100;
  const rewards = rows.flatMap((row) => {
    const value = row.kind === 'step' ? metricValue(row, 'reward_mean') : null;
    return value === null ? [] : [{ step: row.step, value }];
  });
  const losses = supervisedCurves(rows).training;
  process.stdout.write(printable(`\n${renderTrainingSummary(summary, { columns, paint, rewards, losses, evaluationLabel, next })}`));
}

/** Reports a run that had already finished, as a line or as its JSON object. Writes no files. */
export async function reportFinished(
  { outcome, paths, transcripts }: FinishedRun,
  { config, changes }: TrainingSetup,
  { display, note }: Omit<ReportOptions, 'redact'>,
): Promise<void> {
  const { adapter, directory, step } = outcome;
  if (display.json) {
    const { summary } = await readTrainingSummary({ outcome, config, paths, transcripts });
    process.stdout.write(jsonLine(trainingSummaryToWire(summary)));
  }
  const where =
    adapter === null
      ? ''
      : config.backend.kind === 'tinker'
        ? '; its adapter is at the training service, and vf-export --adapter brings it here'
        : `; its adapter is in ${displayPath(adapter)}`;
  const renamed = changes.some(({ key }) => key === 'name')
    ? `. It is now named ${config.name}; its plots, cards and transcript keep the old name`
    : '';
  const others = changes.filter(({ key }) => key !== 'name').map(({ key }) => key);
  const unused = others.length === 0 ? '' : `. The change of ${others.join(', ')} has no effect and was not saved`;
  note(`vf-train: ${displayPath(directory)} has already finished its ${plural(step, 'step')}${where}; raise --steps to continue${renamed}${unused}`);
}
