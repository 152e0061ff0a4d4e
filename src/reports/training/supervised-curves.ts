/** The losses on demonstrations in the metrics of a run: of its supervised steps, and of the demonstrations held out. */
import type { MetricsRow } from '../../trainer/training-observer.ts';
import { metricValue } from '../../trainer/training-observer.ts';

export interface LossAt {
  readonly step: number;
  /** Nats per token. */
  readonly value: number;
}

export interface SupervisedCurves {
  readonly training: readonly LossAt[];
  readonly validation: readonly LossAt[];
}

/** That of `[sft]`; a loss of `[losses.*]` that is taken on demonstrations has its own name. */
const SUPERVISED_NLL = 'loss/sft/nll';
const OTHER_NLL = /^loss\/.+\/nll$/;

/** Both are empty for a run without demonstrations. */
export function supervisedCurves(rows: readonly MetricsRow[]): SupervisedCurves {
  const steps = rows.filter((row) => row.kind === 'step' && (metricValue(row, 'demonstrations') ?? 0) > 0);
  const name = nllName(steps.flatMap(({ values }) => Object.keys(values)));
  return {
    training: name === null ? [] : lossesAt(steps, name),
    validation: lossesAt(
      rows.filter(({ kind }) => kind === 'validation'),
      'validation_nll',
    ),
  };
}

/** The metric among `names` that is the loss on demonstrations; null if there is none. */
export function nllName(names: readonly string[]): string | null {
  return names.includes(SUPERVISED_NLL) ? SUPERVISED_NLL : (names.find((each) => OTHER_NLL.test(each)) ?? null);
}

function lossesAt(rows: readonly MetricsRow[], metric: string): LossAt[] {
  return rows.flatMap((row) => {
    const value = metricValue(row, metric);
    return value === null ? [] : [{ step: row.step, value }];
  });
}
