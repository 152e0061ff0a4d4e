/** `best/`: the adapter of the run's best version, next to a file with its step and figure: `evaluation.json` if held-out rollouts chose it, `validation.json` if the loss on held-out demonstrations did. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { ChosenMetric } from './chosen-metric.ts';
import type { MetricsRow } from '../training-observer.ts';
import { readRegularFileSync } from '../../files/regular-file.ts';
import type { WrittenFile } from '../../files/written-files.ts';

export interface BestVersion {
  /** `reward_mean` or another metric of an evaluation, or `validation_nll` of a validation, the lower the better. */
  readonly metric: string;
  /** Set for a metric that `checkpoint.best` names, if its lowest value is the best. @default false */
  readonly lowerIsBetter?: true;
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

const LOSS = 'validation_nll';
const REWARD = 'reward_mean';

/** Name and text of the file with the figure and with what the adapter's files were. */
export function bestRecord(
  { metric, step, version, value, lowerIsBetter }: BestVersion,
  files: readonly WrittenFile[],
): { readonly name: string; readonly text: string } {
  const named = metric === REWARD ? {} : { greater_is_better: lowerIsBetter !== true };
  const record = { step, ...(metric === LOSS ? {} : { version, ...named }), [metric]: value, files };
  return { name: metric === LOSS ? 'validation.json' : 'evaluation.json', text: `${JSON.stringify(record)}\n` };
}

/** The measurements among the rows that could choose the best version, the best first. @param chosen by which evaluations choose */
export function measuredVersions(rows: readonly MetricsRow[], chosen: ChosenMetric): BestVersion[] {
  const measured = rows.flatMap(({ kind, step, values }): BestVersion[] => {
    if (kind === 'step') return [];
    const metric = kind === 'evaluation' ? chosen.metric : LOSS;
    const direction = kind === 'evaluation' && chosen.isLowerBetter ? ({ lowerIsBetter: true } as const) : {};
    const { [metric]: value = null, policy_version: version = null } = values;
    return value === null ? [] : [{ metric, step, version: version ?? step, value, ...direction }];
  });
  return measured.toSorted((a, b) => Number(isBetter(b, a)) - Number(isBetter(a, b)) || a.step - b.step);
}

/** Null without a best adapter. @param folder the run's `best/` */
export function readBest(folder: string): KeptBest | null {
  const adapter = join(folder, 'adapter');
  if (!existsSync(adapter)) return null;
  for (const name of ['evaluation.json', 'validation.json']) {
    const file = join(folder, name);
    const {
      step,
      version = step,
      greater_is_better: isGreater = true,
      files: _,
      ...figure
    } = existsSync(file) ? fieldsOf(jsonOrNull(readRegularFileSync(file))) : {};
    const [metric, value] = Object.entries(figure)[0] ?? [];
    const isFigure = metric !== undefined && typeof value === 'number' && (metric === LOSS) === (name === 'validation.json');
    if (typeof step === 'number' && typeof version === 'number' && isFigure)
      return { metric, step, version, value, ...(isGreater === false ? { lowerIsBetter: true } : {}), adapter };
  }
  return null;
}

/** A reward is that of the version when it plays, so it outranks a loss on demonstrations. */
export function isBetter(found: BestVersion, kept: BestVersion | null): boolean {
  if (kept === null) return true;
  if (found.metric !== kept.metric) return found.metric !== LOSS;
  return found.metric === LOSS || found.lowerIsBetter === true ? found.value < kept.value : found.value > kept.value;
}
