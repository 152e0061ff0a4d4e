/** The work of `vf-export`: writes the rollouts of a run, or of a step of a training, and reports the rollouts that were left out. */
import { ConfigError } from '../../core/errors.ts';
import { type ExportCounts, type ExportOptions, exportRun } from '../../evaluate/export-run.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { CommandContext } from '../command-line.ts';
import { isStdout, writeOutput } from '../write-output.ts';
import { exportTrainingStep, isTrainingRun } from './export-training-step.ts';

export interface ExportFlags {
  /** File to write; `-` is stdout. */
  readonly output: string;
  /** Step of a training run, from 1. @default none */
  readonly step?: number;
  /** Writes supervised rows instead. @default false */
  readonly sft?: boolean;
  /** @default none */
  readonly minReward?: number;
  /** The greatest number of rollouts of each row of the data. @default all */
  readonly best?: number;
}

/** Throws ConfigError if nothing is left to write. */
export async function exportRollouts(
  directory: string,
  { output, step, sft = false, ...filters }: ExportFlags,
  context: CommandContext,
): Promise<void> {
  const counts = await writeOutput(output, async (write) => {
    const writeLine = async (line: string) => {
      context.signal.throwIfAborted();
      await write(line);
    };
    const found = await exportFrom(directory, step ?? null, writeLine, { asDemonstrations: sft, ...filters });
    // Thrown before a file of the same name is replaced.
    if (found.exported === 0) throw nothingToWrite(found, { directory, step: step ?? null, minReward: filters.minReward });
    return found;
  });
  if (output !== '-') context.saved = output;
  for (const note of counts.notes) context.note(`vf-export: ${note}`);
  context.note(describe(counts, output));
}

async function exportFrom(
  directory: string,
  step: number | null,
  write: (line: string) => Promise<void>,
  options: ExportOptions,
): Promise<ExportCounts> {
  if (isTrainingRun(directory)) return await exportTrainingStep(directory, step, write, options);
  if (step !== null) throw new ConfigError(`${directory} is not a training run, so it has no steps. Leave --step out.`);
  return await exportRun(directory, write, options);
}

interface Asked {
  readonly directory: string;
  readonly step: number | null;
  readonly minReward: number | undefined;
}

function nothingToWrite(counts: ExportCounts, { directory, step, minReward }: Asked): ConfigError {
  const where = step === null ? directory : `step ${step} of ${directory}`;
  const left = leftOut(counts);
  if (left === '') return new ConfigError(`No rollout is recorded in ${where}; nothing was written`);
  const which = minReward === undefined ? 'is whole' : `has a reward of at least ${minReward} and is whole`;
  return new ConfigError(`No rollout of ${where} ${which}; nothing was written${left}${minReward === undefined ? '' : '. Lower --min-reward'}`);
}

function describe(counts: ExportCounts, output: string): string {
  const of = counts.name === null ? '' : ` of "${counts.name}"`;
  const lines = counts.branches === undefined ? '' : ` in ${plural(counts.branches, counts.branches === 1 ? 'branch' : 'branche')}`;
  return `vf-export: ${plural(counts.exported, 'rollout')}${of}${lines} written to ${isStdout(output) ? 'stdout' : output}${leftOut(counts)}`;
}

/** Empty if every rollout was written. */
function leftOut({ errored, cut, withoutTokens, unplayed, unpaid = 0, unselected }: ExportCounts): string {
  const left = [
    [errored, 'failed'],
    [cut, 'with a cut context'],
    [withoutTokens, 'without recorded tokens'],
    [unplayed, 'without a token of the policy'],
    [unpaid, 'without a reward from their source'],
    [unselected, 'not selected by --min-reward or --best'],
  ].filter(([n]) => n !== 0);
  return left.length === 0 ? '' : `; left out: ${left.map(([n, why]) => `${n} ${why}`).join(', ')}`;
}
