/** The page of an evaluation: its settings, and the summary that `vf-eval --json` prints, computed again from the figures of its rollouts. */
import { estimate } from '../core/statistics.ts';
import { stopNotices } from '../evaluate/run-notices.ts';
import { type Figures, figures, type FiguresOptions } from '../evaluate/summary.ts';
import type { RecordedRollout } from '../evaluate/recorded-rollout.ts';
import { type Estimate as SummaryEstimate, summaryToWire, type Summary } from '../schemas/summary.ts';
import { type Fields, factsOf, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { OpenRun } from './open-run.ts';
import { orNull, RolloutTable } from './rollout-table.ts';
import { flatFields } from './rollout-reader.ts';
import type { SetFile } from './rollout-sets.ts';
import type { Estimate, EvaluationDetail } from './view-wire.ts';

export async function evaluationDetail(run: OpenRun): Promise<EvaluationDetail> {
  const [line, sets, metadata] = await Promise.all([run.line(), run.sets(), run.settings.readable()]);
  const table = await tableOf(run, sets[0]!);
  const settings = flatFields(metadata);
  const summary = table.size === 0 ? null : summaryOf(table, settings, run.found.id);
  return {
    kind: 'evaluation',
    run: { ...line, done: Math.max(line.done, table.size), reward: (summary?.['reward'] ?? line.reward) as Estimate | null },
    facts: factsOfMetadata(settings),
    sets: sets.map(({ set }) => set),
    summary,
  };
}

/** Empty for a file that cannot be read, of which `RunDamage` tells. */
async function tableOf(run: OpenRun, file: SetFile): Promise<RolloutTable> {
  try {
    return await (await run.reader(file)).table();
  } catch {
    return new RolloutTable();
  }
}

function summaryOf(table: RolloutTable, metadata: Fields, directory: string): Record<string, unknown> {
  const perExample = numberOf(metadata['rollouts_per_example']) ?? 1;
  const rollouts = recordedRollouts(table);
  const seconds = numberOf(metadata['time']) ?? 0;
  const kind = textOf(fieldsOf(metadata['policy'])['kind']);
  const name = textOf(metadata['name']);
  const summary: Summary = {
    ...(name === null ? {} : { name }),
    envId: textOf(metadata['env_id']) ?? '',
    model: textOf(metadata['model']) ?? '',
    policyKind: kind === 'tokens' || kind === 'none' ? kind : 'chat',
    directory,
    ...figuresOf(table, rollouts, { planned: numberOf(metadata['num_planned']) ?? table.size, rolloutsPerExample: perExample }),
    wallSeconds: seconds,
    rolloutsPerSecond: seconds === 0 ? null : table.size / seconds,
    sample: null,
    notices: stopNotices(rollouts),
  };
  const { sample: _, ...wire } = summaryToWire(summary);
  const { roles, cost } = metadata;
  return { ...wire, ...(roles === undefined ? {} : { roles }), ...(cost === undefined ? {} : { cost }) };
}

function figuresOf(table: RolloutTable, rollouts: readonly RecordedRollout[], options: FiguresOptions): Figures {
  const { tasks, ...found } = figures(rollouts, options);
  const task = table.name('task');
  const withMetrics = ([name, one]: [string, NonNullable<Figures['tasks']>[string]]) => [
    name,
    { ...one, metrics: metricEstimates(table, (row) => task(row) === name) },
  ];
  return {
    ...found,
    metrics: metricEstimates(table),
    ...(tasks === undefined ? {} : { tasks: Object.fromEntries(Object.entries(tasks).map(withMetrics)) as NonNullable<Figures['tasks']> }),
  };
}

/** Estimates of metrics over finished rollouts, column by column: objects with all metrics of 100,000 rollouts would take more memory than the whole index. */
function metricEstimates(table: RolloutTable, isWanted: (row: number) => boolean = () => true): Record<string, SummaryEstimate> {
  const error = table.name('error');
  const groups = [
    ...Map.groupBy(
      [...table.rows].filter((row) => error(row) === null && isWanted(row)),
      table.name('group'),
    ).values(),
  ];
  const estimates = table.metricNames.map((name) => {
    const value = table.number(`metric:${name}`);
    return [name, estimate(groups.map((rows) => rows.map(value).filter((one) => !Number.isNaN(one))))] as const;
  });
  return Object.fromEntries(estimates.filter(([, one]) => one !== null)) as Record<string, SummaryEstimate>;
}

const NO_METRICS = {};
const NO_POLICY = { model: '', version: 0 };

/** The parts of rollouts that the summary reads, without their metrics. The objects hold no figures themselves, so that 100,000 of them take little memory. */
function recordedRollouts(table: RolloutTable): RecordedRollout[] {
  const [group, stop, error, reason, task] = (['group', 'stop', 'error', 'reason', 'task'] as const).map((name) => table.name(name)) as RowNames;
  const columns = ['reward', 'turns', 'truncated', 'input', 'tokens', 'cached', 'guessed', 'ignored'];
  const [reward, turns, truncated, input, output, cached, guessed, ignored] = columns.map((name) => table.number(name)) as RowNumbers;
  class TableRollout implements RecordedRollout {
    readonly row: number;
    readonly metrics = NO_METRICS;
    readonly policy = NO_POLICY;
    readonly isCut = false;
    readonly cutObservations = 0;
    readonly endedAtMs = 0;

    constructor(row: number) {
      this.row = row;
    }

    get rolloutId() {
      return `${this.groupId}/${this.index}`;
    }

    get groupId() {
      return group(this.row)!;
    }

    get index() {
      return table.index(this.row);
    }

    get task() {
      return task(this.row);
    }

    get reward() {
      return orNull(reward(this.row));
    }

    get error() {
      const type = error(this.row);
      const why = type === null ? null : reason(this.row);
      return type === null ? null : { type, message: table.errorMessages.get(type) ?? '', ...(why === null ? {} : { reason: why as 'failed' }) };
    }

    get stop() {
      return stop(this.row) ?? '';
    }

    get isTruncated() {
      return truncated(this.row) === 1;
    }

    get guessedStops() {
      return orNull(guessed(this.row)) ?? 0;
    }

    get ignoredStops() {
      return orNull(ignored(this.row)) ?? 0;
    }

    get forks() {
      return table.forks(this.row);
    }

    get turns() {
      return orNull(turns(this.row)) ?? 0;
    }

    get usage() {
      return { inputTokens: orNull(input(this.row)) ?? 0, outputTokens: orNull(output(this.row)) ?? 0, cachedTokens: orNull(cached(this.row)) };
    }
  }
  return Array.from(table.rows, (row) => new TableRollout(row));
}

type RowName = (row: number) => string | null;
type RowNumber = (row: number) => number;
type RowNames = [RowName, RowName, RowName, RowName, RowName];
type RowNumbers = [RowNumber, RowNumber, RowNumber, RowNumber, RowNumber, RowNumber, RowNumber, RowNumber];

function factsOfMetadata(metadata: Fields): EvaluationDetail['facts'] {
  const config = fieldsOf(metadata['config']);
  const sampling = fieldsOf(config['sampling_args'] ?? metadata['sampling_args']);
  const policy = fieldsOf(metadata['policy']);
  const versions = fieldsOf(metadata['version_info']);
  return factsOf({
    environment: metadata['env_id'],
    'environment arguments': metadata['env_args'],
    model: metadata['model'],
    policy: policy['kind'],
    endpoint: policy['endpoint'] ?? metadata['base_url'],
    sampling,
    rows: metadata['num_examples'],
    'rollouts per row': metadata['rollouts_per_example'],
    seed: metadata['seed'],
    shuffled: metadata['shuffle'] === true ? metadata['shuffle_seed'] : null,
    'concurrent rollouts': metadata['max_concurrent'],
    'context of the model': policy['max_model_len'],
    tokenizer: policy['tokenizer_hash'],
    data: fieldsOf(metadata['environment'])['questions'] ?? metadata['environment'],
    sessions: listOf(metadata['sessions']).length,
    started: metadata['started_at'],
    updated: metadata['updated_at'],
    'seconds of work': numberOf(metadata['time'])?.toFixed(1),
    'version of vf-search': versions['vf_version'],
    commit: versions['vf_commit'],
    configuration: metadata['config_digest'],
  });
}
