/** Writes the plots of a run and the cards of its adapters, and reads its summary. */
import { describeError } from '../../core/errors.ts';
import { type TrainingPlotOptions, writeTrainingPlots } from '../../reports/plot/write-training-plots.ts';
import { readTrainingSummary } from '../../reports/training/training-summary.ts';
import { type ModelCardsOptions, writeModelCards } from '../../reports/training/write-model-cards.ts';
import { readBest } from '../../trainer/records/best-version.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { readSettingHistory } from '../../trainer/records/setting-history.ts';
import type { MetricsRow } from '../../trainer/training-observer.ts';
import type { EndedTraining } from './run-training.ts';

interface ConcludeOptions extends Pick<ModelCardsOptions, 'variables' | 'redact'> {
  /** Takes a line about a file that could not be written. */
  readonly warn: (line: string) => void;
}

export async function concludeTraining(ended: EndedTraining, { warn, ...options }: ConcludeOptions): ReturnType<typeof readTrainingSummary> {
  const { outcome, paths, evaluationLabel } = ended;
  const { config, wire } = ended.setup;
  const rows = await readMetrics(paths.metrics);
  const plots = await plotsOf(rows, { name: config.name, folder: paths.plots, evaluationLabel, warn });
  const adapters = { adapter: outcome.adapter, best: readBest(paths.best) };
  const history = await readSettingHistory(paths.events);
  await cardsOf({ config, wire, rows, history, evaluationLabel, ...adapters, plots, ...options }, warn);
  return readTrainingSummary({ ...ended, config, outcome: { ...outcome, plots } });
}

/** An adapter without a card is still an adapter: a failure to write one must not fail the run. */
async function cardsOf(options: ModelCardsOptions, warn: (line: string) => void): Promise<void> {
  try {
    await writeModelCards(options);
  } catch (error) {
    warn(`no README.md next to the adapter: ${describeError(error)}`);
  }
}

/** Plots are a convenience: a failure to draw one must not fail the run. */
async function plotsOf(
  rows: readonly MetricsRow[],
  { warn, ...look }: TrainingPlotOptions & { readonly warn: (line: string) => void },
): Promise<string[]> {
  if (rows.length === 0) return [];
  try {
    return await writeTrainingPlots(rows, look);
  } catch (error) {
    warn(`no plots: ${describeError(error)}`);
    return [];
  }
}
