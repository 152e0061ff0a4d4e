/** A training as `vf-compare` reads it: its settings, its end and its evaluations. Only evaluations of usable versions count (trainer/records/usable-version.ts). */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { suggestion } from '../../core/closest-name.ts';
import { withEnvironmentVersion } from '../../core/environment-version.ts';
import { ConfigError, thrownText } from '../../core/errors.ts';
import { firstRepeated } from '../../core/first-repeated.ts';
import { readLines } from '../../files/json-lines.ts';
import { readTomlSync } from '../../files/toml-text.ts';
import type { WireAblationRun } from '../../schemas/ablation.ts';
import { isObject } from '../../schemas/is-object.ts';
import { parseWire } from '../../schemas/results.ts';
import type { ComparedTrainingRun, EvaluatedAt, TrainingState } from '../../schemas/training-comparison.ts';
import { EventLineSchema } from '../../schemas/training-records.ts';
import { ablationRunFolder, isAblation, readAblation } from '../../trainer/records/ablation-directory.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { RUBRIC_PREFIX } from '../../trainer/records/metrics.ts';
import { stepName } from '../../trainer/records/step-file.ts';
import { readTrainingRun, trainingPaths } from '../../trainer/records/training-directory.ts';
import { readSettingHistory, wholeSettings } from '../../trainer/records/setting-history.ts';
import { evaluationPlacer, newestEvaluations } from '../../trainer/records/usable-version.ts';
import { type MetricsRow, metricValue } from '../../trainer/training-observer.ts';
import { workOf } from '../training/training-summary.ts';

type Table = Readonly<Record<string, unknown>>;

export interface ComparedTraining {
  readonly name: string;
  /** Null for a run of an ablation that never began. */
  readonly directory: string | null;
  /** The recorded configuration, snake_case, without secrets, with the versions of its environment and with every value of settings that changed in the run; null without a folder. */
  readonly config: Table | null;
  /** Of an ablation: its own settings by dotted key. */
  readonly swept: Table;
  readonly seed: number;
  readonly state: TrainingState;
  readonly reason: string | null;
  readonly step: number;
  readonly steps: number;
  /** Of the compared metric, by step. */
  readonly evaluations: readonly EvaluatedAt[];
  /** The metrics that its evaluations have. */
  readonly metrics: readonly string[];
  /** Over its steps. */
  readonly tokens: ComparedTrainingRun['tokens'];
  readonly seconds: number;
  /** Of the models by role; null if unknown, absent if none can cost anything. Only an ablation records it. */
  readonly usd?: number | null;
}

/** Reads trainings and whole ablations. Throws ConfigError for a folder that is neither, and for one that is named twice. */
export async function readComparedTrainings(directories: readonly string[], metric: string): Promise<readonly ComparedTraining[]> {
  const found: ComparedTraining[] = [];
  for (const directory of directories) {
    if (!isAblation(directory)) found.push(await readTraining(directory, metric));
    else for (const run of (await readAblation(directory)).runs) found.push(await readOfAblation(directory, run, metric));
  }
  const twice = firstRepeated(found.flatMap((run) => (run.directory === null ? [] : [resolve(run.directory)])));
  if (twice !== undefined) throw new ConfigError(`${twice} is named twice. A training is one measurement; name each once.`);
  assertMetric(found, metric);
  return found;
}

function assertMetric(runs: readonly ComparedTraining[], metric: string): void {
  const known = [...new Set(runs.flatMap(({ metrics }) => metrics))].toSorted();
  if (metric === 'reward' || known.length === 0 || known.includes(metric)) return;
  throw new ConfigError(
    `No evaluation of these trainings has a metric "${metric}"${suggestion(metric, known)}. They have ${['reward', ...known].join(', ')}.`,
  );
}

/** A run that failed before its first checkpoint may have no more than its place in the ablation. */
async function readOfAblation(directory: string, run: WireAblationRun, metric: string): Promise<ComparedTraining> {
  const { name, settings, reason, state } = run;
  const folder = ablationRunFolder(directory, run);
  const ended: TrainingState = state === 'failed' || state === 'stopped' ? state : 'unfinished';
  const cost = run.usd === undefined ? {} : { usd: run.usd };
  const known = { name, swept: settings, seed: numberAt(settings, 'seed'), ...cost };
  const begun =
    folder === null ? UNFINISHED[state] : existsSync(folder) ? await readTraining(folder, metric).catch(thrownText) : 'its folder is gone';
  const why = reason ?? UNFINISHED[state];
  if (typeof begun === 'string') return { ...known, ...NOTHING, state: ended, reason: reason ?? begun };
  const own = { ...begun, swept: settings, ...cost };
  return begun.state === 'finished' ? own : { ...own, state: ended, reason: why };
}

/** What is known of a run without a folder. */
const NOTHING = {
  directory: null,
  config: null,
  step: 0,
  steps: 0,
  evaluations: [],
  metrics: [],
  tokens: { sampled: 0, trained: 0 },
  seconds: 0,
} as const satisfies Partial<ComparedTraining>;

/** Why a run has no result, by its recorded state, if nothing better is known. */
const UNFINISHED: Readonly<Record<WireAblationRun['state'], string>> = {
  planned: 'it has not begun',
  running: 'it was killed, or is running',
  interrupted: 'it was interrupted',
  finished: 'it has steps left',
  stopped: 'no reason is recorded',
  failed: 'no reason is recorded',
};

async function readTraining(directory: string, metric: string): Promise<ComparedTraining> {
  const { finished_at: finishedAt, inputs } = await readTrainingRun(directory);
  const paths = trainingPaths(directory);
  const rows = await readMetrics(paths.metrics);
  const steps = rows.filter(({ kind }) => kind === 'step');
  const step = steps.at(-1)?.step ?? 0;
  const history = await readSettingHistory(paths.events);
  const recorded = readTomlSync(paths.config);
  const config = withEnvironmentVersion(wholeSettings(history.through(recorded, step)), inputs);
  const own = ownEvaluations(rows);
  const evaluations = own.flatMap((row) => evaluatedAt(row, metric));
  const unmeasured = own.length === 0 || evaluations.length > 0 ? null : `its evaluations have no ${metric}`;
  const { state, reason } = finishedAt === null ? await endOf(paths.events) : { state: 'finished' as const, reason: unmeasured };
  const { tokens, seconds } = workOf(steps, own);
  return {
    name: typeof config['name'] === 'string' ? config['name'] : basename(directory),
    directory,
    config,
    swept: {},
    seed: numberAt(config, 'seed'),
    state,
    reason,
    step,
    steps: stepsOf(recorded),
    evaluations,
    tokens: { sampled: tokens.sampled, trained: tokens.trained },
    seconds: seconds.total,
    metrics: [...new Set(own.flatMap(({ values }) => Object.keys(values)))]
      .filter((name) => name.startsWith(RUBRIC_PREFIX))
      .map((name) => name.slice(RUBRIC_PREFIX.length)),
  };
}

/** Those that the version which their step left has played, the last one of each step. */
function ownEvaluations(rows: readonly MetricsRow[]): readonly MetricsRow[] {
  const place = evaluationPlacer();
  const own = newestEvaluations(rows).filter((row) => place(row) === row && row.kind === 'evaluation');
  return [...new Map(own.map((row) => [row.step, row])).values()].toSorted((a, b) => a.step - b.step);
}

function evaluatedAt(row: MetricsRow, metric: string): EvaluatedAt[] {
  const value = metricValue(row, metric === 'reward' ? 'reward_mean' : `${RUBRIC_PREFIX}${metric}`);
  if (value === null) return [];
  const end = (name: string) => (metric === 'reward' ? metricValue(row, name) : null);
  return [{ step: row.step, value, low: end('reward_low'), high: end('reward_high'), rollouts: metricValue(row, 'rollouts') ?? 0 }];
}

/** Why a run has not finished: the guard or the error that stopped it last, unless it was resumed since. */
async function endOf(events: string): Promise<Pick<ComparedTraining, 'state' | 'reason'>> {
  let stopped: string | null = null;
  for await (const { text } of readLines(events)) {
    const parsed = parseWire(EventLineSchema, text);
    if ('problem' in parsed) continue;
    if (parsed.value.kind === 'stopped') stopped = parsed.value.message;
    if (parsed.value.kind === 'started' || parsed.value.kind === 'resumed') stopped = null;
  }
  return stopped === null ? { state: 'unfinished', reason: 'it has not finished' } : { state: 'stopped', reason: stopped };
}

function stepsOf(config: Table): number {
  const { sft } = config;
  return numberAt(config, 'steps') + (isObject(sft) && (sft['data'] !== undefined || sft['problems'] !== undefined) ? numberAt(sft, 'steps') : 0);
}

function numberAt(table: Table, key: string): number {
  return typeof table[key] === 'number' ? table[key] : 0;
}

/** The rollouts of an evaluation. */
export function evaluationFile(directory: string, step: number): string {
  return join(trainingPaths(directory).evaluations, `${stepName(step)}.jsonl`);
}
