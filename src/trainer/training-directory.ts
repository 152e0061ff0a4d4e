/** The folder of a training run: where everything lies, who may write to it, and which processes worked on it. docs/training-run.md shows it. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, unlink } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { ConfigError, VfError } from '../core/errors.ts';
import { replaceFile, syncDirectory, writeError } from '../files/json-lines.ts';
import { makeFolder } from '../files/make-folder.ts';
import { readRegularFile } from '../files/regular-file.ts';
import { lockRun } from '../files/run-lock.ts';
import { parseWire } from '../schemas/results.ts';
import { TrainingRunSchema, type WireTrainingRun } from '../schemas/training-records.ts';

/** Absolute paths. Nothing but `config`, `run` and the folders is there from the start. */
export interface TrainingPaths {
  readonly config: string;
  readonly run: string;
  readonly metrics: string;
  readonly events: string;
  readonly rollouts: string;
  readonly evaluations: string;
  readonly adapters: string;
  readonly checkpoints: string;
  readonly plots: string;
  readonly transcripts: string;
  readonly policyLog: string;
  readonly workerLog: string;
}

export function trainingPaths(directory: string): TrainingPaths {
  const at = (name: string) => resolve(directory, name);
  return {
    config: at('config.toml'),
    run: at('run.json'),
    metrics: at('metrics.jsonl'),
    events: at('events.jsonl'),
    rollouts: at('rollouts'),
    evaluations: at('evaluations'),
    adapters: at('adapters'),
    checkpoints: at('checkpoints'),
    plots: at('plots'),
    transcripts: at('transcripts.txt'),
    policyLog: at('policy.log'),
    workerLog: at('worker.log'),
  };
}

export interface NewTrainingRun {
  /** Where the run gets its folder; made where it is missing. */
  readonly outputDirectory: string;
  /** Letters, digits, `-` and `_`: what a person calls the run. */
  readonly name: string;
  /** Short and unique: the folder is `<name>--<id>`. */
  readonly id: string;
  /** Text of config.toml, free of secrets. */
  readonly config: string;
  readonly configDigest: string;
  readonly startedAt: Date;
}

export interface TrainingAttempt {
  /** Unique within the run: published names are made of it. */
  readonly id: string;
  readonly startedAt: Date;
  /** Of vf-search. */
  readonly packageVersion: string;
}

const FOLDERS = ['rollouts', 'evaluations', 'adapters', 'checkpoints', 'plots'] as const satisfies readonly (keyof TrainingPaths)[];

/** A run's folder that this process alone writes to, until disposed. */
export class TrainingDirectory implements AsyncDisposable {
  /** Absolute. */
  readonly path: string;
  readonly paths: TrainingPaths;
  readonly #lock: AsyncDisposable;
  #run: WireTrainingRun;

  private constructor(path: string, lock: AsyncDisposable, run: WireTrainingRun) {
    this.path = path;
    this.paths = trainingPaths(path);
    this.#lock = lock;
    this.#run = run;
  }

  /** A new folder. It is a run once `run.json` is there, which comes last. Throws ConfigError when the folder exists or none can be made. */
  static async create(options: NewTrainingRun): Promise<TrainingDirectory> {
    const path = resolve(options.outputDirectory, `${options.name}--${options.id}`);
    try {
      makeFolder(options.outputDirectory);
      await mkdir(path);
    } catch (cause) {
      const { code, message, path: refused } = cause as NodeJS.ErrnoException;
      const remedy = code === 'EEXIST' && refused === path ? 'it exists: resume it with -R, or give the run another name' : message;
      throw new ConfigError(`Expected to make a folder for the run at ${path}: ${remedy}`, { cause });
    }
    const lock = await lockRun(path);
    const run: WireTrainingRun = {
      schema_version: 1,
      run_id: basename(path),
      started_at: options.startedAt.toISOString(),
      finished_at: null,
      config_digest: options.configDigest,
      attempts: [],
    };
    const directory = new TrainingDirectory(path, lock, run);
    try {
      for (const folder of FOLDERS) await mkdir(directory.paths[folder]);
      await replaceFile(directory.paths.config, (write) => write(Buffer.from(options.config, 'utf8')));
      await directory.#save(run);
      await syncDirectory(resolve(options.outputDirectory));
      return directory;
    } catch (cause) {
      await lock[Symbol.asyncDispose]();
      await rm(path, { recursive: true, force: true }).catch(() => {});
      throw cause instanceof VfError ? cause : writeError(path, cause);
    }
  }

  /**
   * The folder of an earlier run. Throws ConfigError when it holds none, one of another version of this package that cannot be read, or one that a
   * living process writes to. Changes nothing but removes half-written files.
   */
  static async open(directory: string): Promise<TrainingDirectory> {
    const path = resolve(directory);
    await readTrainingRun(path);
    const lock = await lockRun(path);
    try {
      for (const name of await readdir(path)) if (/\.\d+\.tmp$/.test(name)) await unlink(join(path, name));
      for (const folder of FOLDERS) makeFolder(trainingPaths(path)[folder]);
      // Again: what it said before the lock may be another process's past.
      return new TrainingDirectory(path, lock, await readTrainingRun(path));
    } catch (cause) {
      await lock[Symbol.asyncDispose]();
      throw cause instanceof VfError ? cause : writeError(path, cause);
    }
  }

  get run(): WireTrainingRun {
    return this.#run;
  }

  /** Text of config.toml as the run was started, or as `replaceConfig` left it. */
  async readConfig(): Promise<string> {
    try {
      return await readRegularFile(this.paths.config);
    } catch (cause) {
      throw new ConfigError(`Expected the configuration of the run at ${this.paths.config}: ${(cause as Error).message}`, { cause });
    }
  }

  /** For a resume with settings that may change. `config` is free of secrets. */
  async replaceConfig(config: string, configDigest: string): Promise<void> {
    await replaceFile(this.paths.config, (write) => write(Buffer.from(config, 'utf8')));
    await this.#save({ ...this.#run, config_digest: configDigest });
  }

  /** Writes down that this process works on the run from now on; the run counts as unfinished again. */
  async beginAttempt({ id, startedAt, packageVersion }: TrainingAttempt): Promise<void> {
    if (this.#run.attempts.some((attempt) => attempt.id === id)) {
      throw new ConfigError(`Expected an attempt id that ${this.path} never had, got "${id}" again: published names are made of it`);
    }
    const attempt = { id, started_at: startedAt.toISOString(), package_version: packageVersion, node_version: process.versions.node };
    await this.#save({ ...this.#run, finished_at: null, attempts: [...this.#run.attempts, attempt] });
  }

  /** Something was sampled, or computed from it. */
  async holdsWork(): Promise<boolean> {
    const { rollouts, evaluations, checkpoints } = this.paths;
    const names = await Promise.all([rollouts, evaluations, checkpoints].map((folder) => readdir(folder).catch(() => [])));
    return names.flat().length > 0;
  }

  /** Removes the folder of a run that never began: it holds no work, and no server wrote its log there. */
  async removeUnused(): Promise<void> {
    if (existsSync(this.paths.policyLog) || (await this.holdsWork())) return;
    await rm(this.path, { recursive: true, force: true });
  }

  /** Writes down that the run came to its last step. */
  async finish(finishedAt: Date): Promise<void> {
    await this.#save({ ...this.#run, finished_at: finishedAt.toISOString() });
  }

  async #save(run: WireTrainingRun): Promise<void> {
    await replaceFile(this.paths.run, (write) => write(Buffer.from(`${JSON.stringify(run, null, 2)}\n`, 'utf8')));
    this.#run = run;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lock[Symbol.asyncDispose]();
  }
}

/** Throws ConfigError when the folder holds no run that this version can read. */
export async function readTrainingRun(directory: string): Promise<WireTrainingRun> {
  const path = trainingPaths(directory).run;
  let text: string;
  try {
    text = await readRegularFile(path);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
    throw new ConfigError(
      isMissing ? `Expected the folder of a training run with a run.json, got ${directory}` : `Expected to read ${path}: ${message}`,
      {
        cause,
      },
    );
  }
  const parsed = parseWire(TrainingRunSchema, text);
  if ('problem' in parsed) throw new ConfigError(`Expected ${path} to be the record of a training run, got ${parsed.problem}`);
  return parsed.value;
}

/** The run under `outputDirectory` that was started last, of those that match; null when there is none. Folders that are no run are passed over. */
export async function newestTrainingRun(
  outputDirectory: string,
  matches: (run: WireTrainingRun, directory: string) => boolean,
): Promise<string | null> {
  let newest: { path: string; startedAt: string } | null = null;
  for (const name of await readdir(outputDirectory).catch(() => [])) {
    const path = resolve(outputDirectory, name);
    const run = await readTrainingRun(path).catch(() => null);
    if (run === null || !matches(run, path)) continue;
    if (newest === null || run.started_at > newest.startedAt) newest = { path, startedAt: run.started_at };
  }
  return newest?.path ?? null;
}
