/** A run's line in the list of runs, from its small files only. */
import { hasLivingWriter } from '../files/run-lock.ts';
import { recordedRunName } from '../schemas/run-name.ts';
import type { FoundRun } from './find-runs.ts';
import { type Fields, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { MetricFile } from './metric-file.ts';
import type { RunSettings } from './run-settings.ts';
import type { Estimate, MetricLines, RunLine } from './view-wire.ts';

/** Without `problems`. */
export async function evaluationLine(run: FoundRun, settings: Pick<RunSettings, 'readable'>): Promise<RunLine> {
  const metadata = await settings.readable();
  const finished = numberOf(metadata['num_finished']);
  const failed = numberOf(metadata['num_errored']) ?? 0;
  const reward = numberOf(metadata['avg_reward']);
  return {
    ...emptyLine(run),
    name: textOf(metadata['name']),
    environment: textOf(metadata['env_id']) ?? '',
    model: textOf(metadata['model']) ?? '',
    started_at: textOf(metadata['started_at']),
    updated_at: textOf(metadata['updated_at']),
    state: await stateOf(run.directory, hasFinished(metadata)),
    done: finished === null ? plannedOf(metadata) : finished + failed,
    planned: numberOf(metadata['num_planned']) ?? plannedOf(metadata),
    failed,
    reward: reward === null ? null : { value: reward, low: null, high: null, n: finished ?? plannedOf(metadata) },
    cost: numberOf(fieldsOf(metadata['cost'])['usd']),
  };
}

/** Without `problems`. */
export async function trainingLine(
  run: FoundRun,
  { metrics, settings }: { readonly metrics: MetricFile; readonly settings: Pick<RunSettings, 'readable' | 'record'> },
): Promise<RunLine> {
  const [record, config, lines] = await Promise.all([settings.record(), settings.readable(), metrics.lines().catch(() => [])]);
  const attempts = listOf(record['attempts']).map(fieldsOf);
  const finishedAt = textOf(record['finished_at']);
  const { path } = fieldsOf(config['model']);
  const [environment, model] = [textOf(fieldsOf(config['environment'])['id']) ?? '', textOf(path) ?? ''];
  return {
    ...emptyLine(run),
    name: recordedRunName(record, config),
    environment,
    model,
    started_at: textOf(record['started_at']),
    updated_at: lines.at(-1)?.time ?? finishedAt ?? textOf(attempts.at(-1)?.['started_at']),
    state: await stateOf(run.directory, finishedAt !== null),
    done: lines.findLast(({ kind }) => kind === 'step')?.step ?? 0,
    planned: plannedSteps(config),
    reward: lastHeldOut(lines),
    curve: lines
      .filter(({ kind }) => kind === 'evaluation')
      .flatMap(({ step, values }) => (typeof values['reward_mean'] === 'number' ? [{ step, value: values['reward_mean'] }] : [])),
  };
}

/** Runs of verifiers itself do not say; of metadata that cannot be read nothing is known. */
function hasFinished(metadata: Fields): boolean {
  return metadata['complete'] === true || (metadata['complete'] === undefined && Object.keys(metadata).length > 0);
}

async function stateOf(directory: string, isComplete: boolean): Promise<RunLine['state']> {
  if (isComplete) return 'complete';
  return (await hasLivingWriter(directory)) ? 'running' : 'stopped';
}

/** Runs of verifiers itself do not record the count. */
function plannedOf(metadata: Fields): number {
  return (numberOf(metadata['num_examples']) ?? 0) * (numberOf(metadata['rollouts_per_example']) ?? 1);
}

/** Null with supervised steps, whose number depends on the data. */
function plannedSteps(config: Fields): number | null {
  const sft = fieldsOf(config['sft']);
  if (sft['data'] === undefined && sft['problems'] === undefined) return numberOf(config['steps']);
  const supervised = numberOf(sft['steps']);
  const steps = numberOf(config['steps']);
  return supervised === null || steps === null ? null : supervised + steps;
}

function lastHeldOut(lines: MetricLines['lines']): Estimate | null {
  const { values } = lines.findLast(({ kind, values: { reward_mean: mean } }) => kind === 'evaluation' && typeof mean === 'number') ?? {};
  if (values === undefined) return null;
  return { value: values['reward_mean']!, low: values['reward_low'] ?? null, high: values['reward_high'] ?? null, n: values['rollouts'] ?? 0 };
}

function emptyLine({ id, kind }: FoundRun): RunLine {
  return {
    id,
    kind,
    name: null,
    differs: '',
    environment: '',
    model: '',
    started_at: null,
    updated_at: null,
    state: 'stopped',
    done: 0,
    planned: null,
    failed: 0,
    reward: null,
    cost: null,
    curve: [],
    problems: [],
  };
}
