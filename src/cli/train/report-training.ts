/** Writes the plots of a run and the cards of its adapters, and prints its summary, as text or as a JSON object. */
import { describeError } from '../../core/errors.ts';
import type { TrainingConfig, TrainingConfigWire } from '../../schemas/training-config.ts';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';
import { type TrainingSummary, trainingSummaryToWire } from '../../schemas/training-summary.ts';
import type { ConfigDifference } from '../../trainer/config/resume-config.ts';
import type { MetricsRow } from '../../trainer/training-observer.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { sourceFiles } from '../../trainer/records/source-files.ts';
import type { TrainingPaths } from '../../trainer/training-session.ts';
import type { TrainingOutcome } from '../../trainer/training-session.ts';
import { displayPath } from '../../reports/evaluation/render-summary.ts';
import { plural } from '../../reports/text/number-text.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { isUnderRounds } from '../under-rounds.ts';
import type { TrainDisplay } from './arguments.ts';
import { bestAdapterOf } from '../../sessions/training/best-adapter.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';
import { metricValue } from '../../reports/training/metric-value.ts';
import { nextTrainingCommands, resumeCommand } from '../../reports/training/next-training-commands.ts';
import { type TrainingPlotOptions, writeTrainingPlots } from '../../reports/plot/write-training-plots.ts';
import { renderTrainingSummary } from '../../reports/training/render-training-summary.ts';
import { supervisedCurves } from '../../reports/training/supervised-curves.ts';
import { type TrainingRecord, trainingSummary } from '../../reports/training/training-summary.ts';
import { type ModelCardsOptions, writeModelCards } from '../../reports/training/write-model-cards.ts';

export interface TrainingReport {
  readonly outcome: TrainingOutcome;
  readonly config: TrainingConfig;
  /** The resolved configuration. */
  readonly wire: TrainingConfigWire;
  /** The preset that the run names; null for none. */
  readonly preset: string | null;
  readonly paths: TrainingPaths;
  readonly transcripts: string | null;
  /** @default held-out */
  readonly evaluationLabel?: EvaluationLabel;
  /** Number of rows of the evaluation environment. @default unknown */
  readonly evaluationRows?: number;
  /** Calls of the models beside the policy in this process. @default none */
  readonly roles?: ReadonlyMap<string, RoleStats>;
  /** What they cost; null where none can cost anything. @default null */
  readonly cost?: RunCost | null;
  readonly display: TrainDisplay;
  readonly note: (line: string) => void;
  /** Removes secrets from text. */
  readonly redact: (text: string) => string;
}

export async function reportTraining({
  outcome,
  config,
  wire,
  preset,
  paths,
  transcripts,
  evaluationLabel = 'held-out',
  evaluationRows,
  roles = new Map(),
  cost = null,
  display,
  note,
  redact,
}: TrainingReport): Promise<void> {
  const rows = await readMetrics(paths.metrics);
  const plots = await plotsOf(rows, { name: config.name ?? config.environment.id, folder: paths.plots, evaluationLabel, note });
  const bestAdapter = bestAdapterOf(paths);
  await cardsOf({ config, wire, preset, rows, evaluationLabel, adapter: outcome.adapter, bestAdapter, plots, variables: process.env, redact }, note);
  const asked = [...roles].filter(([, { calls, failures }]) => calls + failures > 0);
  const summary = {
    ...summaryOf({ outcome: { ...outcome, plots }, config, transcripts, rows, bestAdapter, sourceFiles: await sourceFiles(paths.source) }),
    ...(asked.length === 0 ? {} : { roles: Object.fromEntries(asked) }),
    ...(cost === null ? {} : { cost: costOf(cost) }),
  };
  if (display.json) {
    process.stdout.write(`${JSON.stringify(trainingSummaryToWire(summary))}\n`);
    if (summary.resumable && !isUnderRounds()) note(`vf-train: continue this run with ${resumeCommand(summary.directory)}`);
    return;
  }
  const paint = paintFor(process.stdout, { plain: display.plain });
  const columns = process.stdout.columns ?? 100;
  const rewards = rows.flatMap((row) => {
    const value = row.kind === 'step' ? metricValue(row, 'reward_mean') : null;
    return value === null ? [] : [{ step: row.step, value }];
  });
  const losses = supervisedCurves(rows).training;
  const next = nextTrainingCommands(summary, config, wire, { preset, ...(evaluationRows === undefined ? {} : { rows: evaluationRows }) }).map(
    ({ why, command }) => ({ why, command: redact(command) }),
  );
  process.stdout.write(`\n${renderTrainingSummary(summary, { columns, paint, rewards, losses, evaluationLabel, next })}`);
}

/** Reports a run that had already finished, as a line or as its JSON object. Writes no files. */
export async function reportFinished({
  outcome,
  config,
  paths,
  transcripts,
  changes,
  display,
  note,
}: Omit<TrainingReport, 'wire' | 'preset' | 'redact'> & { readonly changes: readonly ConfigDifference[] }): Promise<void> {
  const { adapter, directory, step } = outcome;
  if (display.json) {
    const rows = await readMetrics(paths.metrics);
    const kept = { bestAdapter: bestAdapterOf(paths), sourceFiles: await sourceFiles(paths.source) };
    const summary = summaryOf({ outcome, config, transcripts, rows, ...kept });
    process.stdout.write(`${JSON.stringify(trainingSummaryToWire(summary))}\n`);
  }
  const where = adapter === null ? '' : `; its adapter is in ${displayPath(adapter)}`;
  const unused = changes.length === 0 ? '' : `. The change of ${changes.map(({ key }) => key).join(', ')} has no effect and was not saved`;
  note(`vf-train: ${displayPath(directory)} has already finished its ${plural(step, 'step')}${where}; raise --steps to continue${unused}`);
}

/** Without the parts that only an evaluation has. */
function costOf({ usd, roles, unpriced, uncounted, limit, limitReached }: RunCost): NonNullable<TrainingSummary['cost']> {
  return { usd, roles: { ...roles }, unpriced: [...unpriced], uncounted: [...uncounted], limit, limitReached };
}

function summaryOf({ config, transcripts, ...record }: Omit<TrainingRecord, 'config'> & { readonly config: TrainingConfig }): TrainingSummary {
  const sharesProcess = config.policy.embedded !== null || config.backend.kind === 'embedded';
  return trainingSummary({ ...record, config, transcripts: transcripts ?? null, sharesProcess });
}

/** An adapter without a card is still an adapter: a failure to write one must not fail the run. */
async function cardsOf(options: ModelCardsOptions, note: (line: string) => void): Promise<void> {
  try {
    await writeModelCards(options);
  } catch (error) {
    note(`vf-train: no README.md beside the adapter: ${describeError(error)}`);
  }
}

/** Plots are a convenience: a failure to draw one must not fail the run. */
async function plotsOf(
  rows: readonly MetricsRow[],
  { note, ...look }: TrainingPlotOptions & { readonly note: (line: string) => void },
): Promise<string[]> {
  if (rows.length === 0) return [];
  try {
    return await writeTrainingPlots(rows, look);
  } catch (error) {
    note(`vf-train: no plots: ${describeError(error)}`);
    return [];
  }
}
