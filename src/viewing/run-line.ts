/** A run's line in the list of runs, from its small files only. */
import { join } from 'node:path';
import { thrownText } from '../core/errors.ts';
import { hasLivingWriter } from '../files/run-lock.ts';
import { recordedRunName } from '../schemas/run-name.ts';
import { readInside } from './files-inside.ts';
import type { FoundRun } from './find-runs.ts';
import { type Fields, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { MetricFile } from './metric-file.ts';
import type { Estimate, MetricLines, RunLine } from './view-wire.ts';

const MOST_BYTES = 16 * 2 ** 20;

export async function evaluationLine(run: FoundRun, settings: () => Promise<Fields>): Promise<RunLine> {
  return await orProblem(run, async () => {
    const metadata = await settings();
    const finished = numberOf(metadata['num_finished']);
    const failed = numberOf(metadata['num_errored']) ?? 0;
    const reward = numberOf(metadata['avg_reward']);
    const isComplete = metadata['complete'] === true || metadata['complete'] === undefined;
    return {
      ...emptyLine(run),
      name: textOf(metadata['name']),
      environment: textOf(metadata['env_id']) ?? '',
      model: textOf(metadata['model']) ?? '',
      started_at: textOf(metadata['started_at']),
      updated_at: textOf(metadata['updated_at']),
      state: await stateOf(run.directory, isComplete),
      done: finished === null ? plannedOf(metadata) : finished + failed,
      planned: numberOf(metadata['num_planned']) ?? plannedOf(metadata),
      reward: reward === null ? null : { value: reward, low: null, high: null, n: finished ?? plannedOf(metadata) },
      cost: numberOf(fieldsOf(metadata['cost'])['usd']),
    };
  });
}

export async function trainingLine(
  run: FoundRun,
  { metrics, settings }: { readonly metrics: MetricFile; readonly settings: () => Promise<Fields> },
): Promise<RunLine> {
  return await orProblem(run, async () => {
    const [record, config, lines] = await Promise.all([readJson(run.directory, 'run.json'), settings(), metrics.lines()]);
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
  });
}

async function readJson(directory: string, name: string): Promise<Fields> {
  const text = await readInside(directory, name, MOST_BYTES);
  return fieldsOf(text === null ? null : JSON.parse(text));
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
    reward: null,
    cost: null,
    curve: [],
    problem: null,
  };
}

async function orProblem(run: FoundRun, read: () => Promise<RunLine>): Promise<RunLine> {
  try {
    return await read();
  } catch (error) {
    const where = join(run.id, run.kind === 'evaluation' ? 'metadata.json' : 'run.json');
    return { ...emptyLine(run), problem: `${where} cannot be read: ${thrownText(error).split('\n', 1)[0]}` };
  }
}
