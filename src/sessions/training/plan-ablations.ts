/** The runs of a file's `[[ablation]]` tables, each resolved and checked before the first begins, with what an earlier process did of them. */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { canonicalJson } from '../../core/canonical-json.ts';
import { ConfigError } from '../../core/errors.ts';
import type { WireAblationRun } from '../../schemas/ablation.ts';
import { isObject } from '../../schemas/is-object.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { ablationRunFolder, isAblation, newestAblation, readAblation } from '../../trainer/records/ablation-directory.ts';
import { refuseEqualRuns } from '../expand-ablation.ts';
import { type Ablation, type AblationRun, readAblations } from './read-ablations.ts';
import { type ResolveTrainingOptions, resolveTraining, trainingRunsFolder, type TrainingRequest, type TrainingSetup } from './resolve-training.ts';

export interface PlannedAblation extends Pick<Ablation, 'name' | 'where'> {
  /** The folder of an earlier process's work, which this one continues; null for a new one. */
  readonly directory: string | null;
  /** Short and unique, for a folder of its own. */
  readonly id: string;
  /** Parent of the runs' folders. */
  readonly runsFolder: string;
  readonly runs: readonly PlannedTraining[];
  /** Labels of recorded runs that the file no longer describes: the table no longer shows them, and their folders stay. */
  readonly leftOut: readonly string[];
}

export interface PlannedTraining {
  readonly run: AblationRun;
  readonly setup: TrainingSetup;
  /** As recorded so far. */
  readonly record: WireAblationRun;
}

/**
 * Null if the request is for one run. Throws ConfigError, which names the run and the key, if any run of the file is not valid; for a flag that sets what the file sweeps;
 * and for runs that come out equal.
 */
export async function planAblations(request: TrainingRequest, options: ResolveTrainingOptions): Promise<readonly PlannedAblation[] | null> {
  const { target, resume } = request;
  const earlier = resume?.directory ?? null;
  if (earlier !== null && isAblation(earlier))
    throw new ConfigError(`${earlier} is the folder of an ablation. Continue it with the file that describes it: vf-train FILE.toml -R`);
  if (target === null || !target.endsWith('.toml')) return null;
  const ablations = readAblations(target);
  if (ablations.length === 0) return null;
  if (earlier !== null) throw new ConfigError(`-R takes no folder with ${target}, because it continues every run of the file. Leave the folder out`);
  const planned = [];
  for (const ablation of ablations) planned.push(await planAblation(ablation, request, options));
  return planned;
}

async function planAblation(ablation: Ablation, request: TrainingRequest, options: ResolveTrainingOptions): Promise<PlannedAblation> {
  refuseSweptFlags(ablation, request);
  const { name, where, runs } = ablation;
  const fresh: { readonly run: AblationRun; readonly setup: TrainingSetup }[] = [];
  const resolve = (place: number, resume: TrainingRequest['resume']) => {
    const { label, layer, name: runName } = runs[place]!;
    const ablationRun = { ...layer, table: { ...layer.table, name: runName } };
    return inRun(`Run ${place + 1} of ${runs.length} of ${where} (${label})`, () => resolveTraining({ ...request, ablationRun, resume }, options));
  };
  for (const [i, run] of runs.entries()) fresh.push({ run, setup: await resolve(i, null) });
  const compared = fresh.map(({ run: { label }, setup: { wire } }) => ({ label, settings: { ...wire, name: null } }));
  refuseEqualRuns(compared, where);
  const runsFolder = trainingRunsFolder(fresh[0]!.setup.config.outputDir);
  const directory = request.resume === null ? null : await newestAblation(runsFolder, name);
  const records = directory === null ? [] : (await readAblation(directory)).runs;
  const leftOut = records.filter((record) => !runs.some((run) => isRecordOf(run, record))).map(({ label }) => label);
  const planned: PlannedTraining[] = [];
  for (const [i, { run, setup }] of fresh.entries()) {
    const known = records.find((record) => isRecordOf(run, record));
    const folder = directory === null || known === undefined ? null : ablationRunFolder(directory, known);
    if (known === undefined || folder === null || !existsSync(folder)) planned.push({ run, setup, record: newRecord(run) });
    else planned.push({ run, setup: await resolve(i, { ...request.resume!, directory: folder }), record: known });
  }
  return { name, where, id: randomBytes(4).toString('hex'), directory, runsFolder, runs: planned, leftOut };
}

function newRecord({ name, label, values }: AblationRun): WireAblationRun {
  const settings = Object.fromEntries(values.map(({ path, value }) => [path.join('.'), hideSecrets(value, path.at(-1))]));
  return { name, label, settings, folder: null, state: 'planned', reason: null };
}

function isRecordOf(run: AblationRun, record: WireAblationRun): boolean {
  return canonicalJson(newRecord(run).settings) === canonicalJson(record.settings);
}

/** A flag overrides the file, so it would make runs equal that the file tells apart. */
function refuseSweptFlags({ where, runs }: Ablation, { layers, preset }: TrainingRequest): void {
  const swept = runs[0]!.values.map(({ path }) => path);
  if (preset !== null && swept.some(([first]) => first === 'preset')) throw bothGiven('preset', where, '--preset');
  for (const { source, table } of layers) {
    if (table['name'] !== undefined)
      throw new ConfigError(`${source} names one run, but ${where} describes ${runs.length}. Set the name in ${where}.`);
    if (table['rollouts_file'] === '-')
      throw new ConfigError(`stdin can be read once, but ${where} describes ${runs.length} runs. Name a file of rollouts.`);
    const path = swept.find((keys) => keys.reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), table) !== undefined);
    if (path !== undefined) throw bothGiven(path.join('.'), where, source);
  }
}

function bothGiven(key: string, where: string, source: string): ConfigError {
  return new ConfigError(`${key} is swept by ${where} and set by ${source}. Leave one out.`);
}

/** Settles as `work` does; its errors name the run. */
export async function inRun<T>(which: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigError) error.message = `${which}: ${error.message}`;
    throw error;
  }
}
