/** `vf-compare` of trainings: their folders, or that of an ablation, in place of evaluations. */
import { existsSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import type { CompareOptions } from '../evaluate/compare-runs.ts';
import { compareTrainings as compare } from '../reports/comparison/compare-trainings.ts';
import { readComparedTrainings } from '../reports/comparison/compared-training.ts';
import { trainingComparisonMarkdown } from '../reports/comparison/training-comparison-markdown.ts';
import { trainingComparisonText } from '../reports/comparison/training-comparison-text.ts';
import { paintFor } from '../reports/text/paint.ts';
import { jsonLine, printable } from '../reports/text/terminal-text.ts';
import { trainingComparisonToWire } from '../schemas/training-comparison.ts';
import { isAblation, readAblation } from '../trainer/records/ablation-directory.ts';
import { trainingPaths } from '../trainer/records/training-directory.ts';
import type { CommandContext } from './command-line.ts';

export interface ShownComparison extends Omit<CompareOptions, 'byId'> {
  readonly metric: string;
  readonly json: boolean;
  readonly markdown: boolean;
}

/** True if all folders are trainings or ablations. Throws ConfigError if only some are. */
export function areTrainings(directories: readonly string[]): boolean {
  const [trainings, others] = [directories.filter(isTraining), directories.filter((directory) => !isTraining(directory))];
  if (trainings.length === 0 || others.length === 0) return trainings.length > 0;
  throw new ConfigError(
    `${trainings[0]} is a training, and ${others[0]} is not. Compare trainings with trainings; T/evaluations/step-000010.jsonl names one evaluation of a training T.`,
  );
}

function isTraining(directory: string): boolean {
  return isAblation(directory) || existsSync(trainingPaths(directory).run);
}

export async function compareTrainings(
  directories: readonly string[],
  { json, markdown, ...options }: ShownComparison,
  { redact }: Pick<CommandContext, 'redact'>,
): Promise<void> {
  const runs = await readComparedTrainings(directories, options.metric);
  if (runs.length < 2) throw new ConfigError('A comparison needs at least two trainings. Name their folders, or the folder of an ablation');
  const comparison = await compare(runs, options);
  const [only] = directories;
  const title = directories.length === 1 ? (await readAblation(only!)).name : 'trainings';
  if (json) process.stdout.write(jsonLine(trainingComparisonToWire(comparison)));
  else if (markdown) process.stdout.write(redact(trainingComparisonMarkdown(comparison, title)));
  else {
    const view = { columns: process.stdout.columns ?? 100, paint: paintFor(process.stdout, { plain: false }) };
    process.stdout.write(printable(redact(trainingComparisonText(comparison, title, view))));
  }
}
