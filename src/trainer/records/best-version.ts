/** `best/`: the adapter of the run's best version, next to a file with its step and figure: `evaluation.json` if held-out rollouts chose it, `validation.json` if the loss on held-out demonstrations did. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { MetricsRow } from '../training-observer.ts';
import { readRegularFileSync } from '../../files/regular-file.ts';
import type { WrittenFile } from '../../files/written-files.ts';

/** `reward_mean` of an evaluation, the higher the better; `validation_nll` of a validation, the lower the better. */
export type BestMetric = 'reward_mean' | 'validation_nll';

export interface BestVersion {
  readonly metric: BestMetric;
  /** The step after which it was measured. */
  readonly step: number;
  /** The version that it left. */
  readonly version: number;
  readonly value: number;
}

export interface KeptBest extends BestVersion {
  /** A PEFT directory. */
  readonly adapter: string;
}

const FILES: Readonly<Record<BestMetric, string>> = { reward_mean: 'evaluation.json', validation_nll: 'validation.json' };

/** Name and text of the file with the figure and with what the adapter's files were. */
export function bestRecord(
  { metric, step, version, value }: BestVersion,
  files: readonly WrittenFile[],
): { readonly name: string; readonly text: string } {
  const record = { step, ...(metric === 'reward_mean' ? { version } : {}), [metric]: value, files };
  return { name: FILES[metric], text: `${JSON.stringify(record)}\n` };
}

/** The measurements among the rows that could choose the best version, the best first. */
export function measuredVersions(rows: readonly MetricsRow[]): BestVersion[] {
  const measured = rows.flatMap(({ kind, step, values }): BestVersion[] => {
    if (kind === 'step') return [];
    const metric = kind === 'evaluation' ? 'reward_mean' : 'validation_nll';
    const { [metric]: value = null, policy_version: version = null } = values;
    return value === null ? [] : [{ metric, step, version: version ?? step, value }];
  });
  return measured.toSorted((a, b) => Number(isBetter(b, a)) - Number(isBetter(a, b)) || a.step - b.step);
}

/** Null without a best adapter. @param folder the run's `best/` */
export function readBest(folder: string): KeptBest | null {
  const adapter = join(folder, 'adapter');
  if (!existsSync(adapter)) return null;
  for (const metric of Object.keys(FILES) as BestMetric[]) {
    const file = join(folder, FILES[metric]);
    const { step, version = step, [metric]: value } = existsSync(file) ? fieldsOf(jsonOrNull(readRegularFileSync(file))) : {};
    if (typeof step === 'number' && typeof version === 'number' && typeof value === 'number') return { metric, step, version, value, adapter };
  }
  return null;
}

/** A reward is that of the version when it plays, so it outranks a loss on demonstrations. */
export function isBetter(found: BestVersion, kept: BestVersion | null): boolean {
  if (kept === null) return true;
  if (found.metric !== kept.metric) return found.metric === 'reward_mean';
  return found.metric === 'reward_mean' ? found.value > kept.value : found.value < kept.value;
}
