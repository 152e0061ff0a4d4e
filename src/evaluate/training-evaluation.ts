/**
 * Reads an evaluation of a training run, `evaluations/step-000010.jsonl`, like a run of vf-eval. It holds neither questions nor answers, so only ids distinguish its
 * rows.
 */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { readLines } from '../files/json-lines.ts';
import { RolloutIds } from '../files/rollout-ids.ts';
import { readTomlSync } from '../files/toml-text.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import { parseWire } from '../schemas/results.ts';
import { TrajectorySchema, type WireTrajectory } from '../schemas/training-records.ts';
import { readRegularFile, statIfThere } from '../files/regular-file.ts';

export interface TrainingEvaluation {
  readonly path: string;
  /** Folder of the training run. */
  readonly run: string;
  /** The run's name; null if its configuration has none. */
  readonly name: string | null;
  readonly step: number;
  /** The version of the policy that played it, which is older than the step if this one was skipped or never served; null if no rollout finished. */
  readonly version: number | null;
  readonly envId: string;
  readonly envArgs: Readonly<Record<string, unknown>>;
  /** The name at its server of the model of that step. */
  readonly model: string;
  readonly seed: number;
  /** Of the sampling, as the configuration has them. */
  readonly temperature: number;
  readonly maxTokens: number | null;
  /** Digests of the files that the run's settings name, as run.json has them; empty if it has none. */
  readonly inputs: unknown;
  /** The number of the environment and the settings that played it, if the run's newest evaluation has others; null if it has not, or does not say. */
  readonly olderSetup: number | null;
  /** Lines that were left out, a sentence. */
  readonly notes: readonly string[];
  /** By rollout id; a failed one may have been played again. */
  readonly rollouts: ReadonlyMap<string, WireTrajectory>;
}

const NAME = /^step-(\d+)\.jsonl$/;

/** True if the path names such a file rather than the folder of a run. */
export function isTrainingEvaluation(path: string): boolean {
  return NAME.test(basename(path)) && (statIfThere(path)?.isFile() ?? true);
}

/** Throws ConfigError unless the file is an evaluation with a rollout, of a run whose configuration is next to it. */
export async function readTrainingEvaluation(path: string): Promise<TrainingEvaluation> {
  const run = dirname(dirname(path));
  const rollouts = new Map<string, WireTrajectory>();
  const ids = new RolloutIds(path);
  for await (const { text, isWhole, number } of readLines(path, { remedy: 'name T/evaluations/step-000010.jsonl of a training run T' })) {
    if (/^\{"(complete|step)":/.test(text)) continue;
    // Drops the lines before the step was sampled again.
    if (text.startsWith('{"restarted":')) for (const each of [rollouts, ids]) each.clear();
    else {
      const parsed = parseWire(TrajectorySchema, text);
      if ('value' in parsed) {
        const { rollout_id: id, error } = parsed.value;
        if (ids.isNew(id, { text, number }, { isFinal: error === null })) rollouts.set(id, parsed.value);
      } else if (isWhole) throw new ConfigError(`Line ${number} of ${path} is not a rollout of an evaluation: ${parsed.problem}. Restore the file.`);
    }
  }
  const [first] = rollouts.values();
  if (first === undefined) throw new ConfigError(`${path} has no recorded rollout.`);
  const version = [...rollouts.values()].find(({ reward }) => reward !== null)?.policy_version ?? null;
  const { environment, ...config } = readConfig(run, path);
  const inputs = fieldsOf(jsonOrNull(await readRegularFile(join(run, 'run.json')).catch(() => '')))['inputs'];
  const step = Number(NAME.exec(basename(path))![1]);
  const olderSetup = await olderSetupOf(join(run, 'metrics.jsonl'), step);
  return { path, run, step, version, ...environment, ...config, model: first.model, inputs, olderSetup, rollouts, notes: ids.notes };
}

/** Of the last evaluation after the step. */
async function olderSetupOf(metrics: string, step: number): Promise<number | null> {
  let [own, newest]: [number | null, number | null] = [null, null];
  for await (const { text } of readLines(metrics)) {
    const { kind, step: at, evaluation_setup: setup } = fieldsOf(jsonOrNull(text));
    if (kind !== 'evaluation' || typeof setup !== 'number') continue;
    newest = setup;
    if (at === step) own = setup;
  }
  return own === newest ? null : own;
}

function readConfig(run: string, path: string) {
  const file = join(run, 'config.toml');
  if (!existsSync(file)) throw new ConfigError(`${path} is not an evaluation of a training run: ${file} is missing.`);
  const config = readTomlSync(file);
  const table = (name: string): Record<string, unknown> => (isObject(config[name]) ? config[name] : {});
  const { id, args, eval_args: evalArgs } = table('environment');
  if (typeof id !== 'string') throw new ConfigError(`${file} names no environment.`);
  const { temperature, max_tokens: maxTokens } = table('rollouts');
  return {
    environment: { envId: id, envArgs: { ...(args as object | undefined), ...(evalArgs as object | undefined) } },
    seed: typeof config['seed'] === 'number' ? config['seed'] : 0,
    name: typeof config['name'] === 'string' ? config['name'] : null,
    temperature: typeof temperature === 'number' ? temperature : 1,
    maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
  };
}

/** `played by version 3`, for an evaluation after step 4: that step was skipped, or its version never served. Empty if the version is the step's, or unknown. */
export function playedByText(step: number, version: number | null): string {
  return version === null || version === step ? '' : `played by version ${version}`;
}
