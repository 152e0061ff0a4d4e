/** The folder of a training run: its paths, its lock, and the processes that worked on it. docs/training-run.md describes it. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { ConfigError, VfError } from '../../core/errors.ts';
import { replaceFile, syncDirectory, writeError } from '../../files/json-lines.ts';
import { folderProblem, makeFolder } from '../../files/make-folder.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { parseToml } from '../../files/toml-text.ts';
import { lockRun } from '../../files/run-lock.ts';
import { parseWire } from '../../schemas/results.ts';
import { folderOfName } from '../../schemas/run-name.ts';
import { TrainingRunSchema, type WireTrainingRun } from '../../schemas/training-records.ts';
import { type RunDirectory, TRAINING_FILES, type TrainingPaths } from '../training-session.ts';
import { systemText } from '../../files/system-text.ts';

export function trainingPaths(directory: string): TrainingPaths {
  return Object.fromEntries(Object.entries(TRAINING_FILES).map(([name, file]) => [name, resolve(directory, file)])) as unknown as TrainingPaths;
}

/** The configuration as the run's files record it. */
export interface ConfigText {
  /** The run's name for people. */
  readonly name: string;
  /** The text of config.toml, free of secrets. */
  readonly config: string;
  readonly configDigest: string;
}

export interface NewTrainingRun extends ConfigText {
  /** Parent of the run's folder; created if missing. */
  readonly outputDirectory: string;
  /** Short and unique: the folder is `<name>--<id>`, with the name as letters, digits, `-` and `_`. */
  readonly id: string;
  readonly startedAt: Date;
}

export interface TrainingAttempt {
  /** Unique within the run, because published names contain it. */
  readonly id: string;
  readonly startedAt: Date;
  /** Version of vf-search. */
  readonly packageVersion: string;
}

const FOLDERS = ['rollouts', 'evaluations', 'adapters', 'checkpoints', 'plots'] as const satisfies readonly (keyof TrainingPaths)[];

/** A run's folder, locked for writing by this process until disposed. */
export class TrainingDirectory implements RunDirectory, AsyncDisposable {
  /** Absolute. */
  readonly path: string;
  readonly paths: TrainingPaths;
  readonly #lock: AsyncDisposable;
  #run: WireTrainingRun;
  #nextConfig: ConfigText | null = null;
  #inputs: WireTrainingRun['inputs'];
  /** Folders above that were made for this run, the deepest first. */
  #parents: readonly string[] = [];

  private constructor(path: string, lock: AsyncDisposable, run: WireTrainingRun) {
    this.path = path;
    this.paths = trainingPaths(path);
    this.#lock = lock;
    this.#run = run;
  }

  /** Creates a folder. `run.json`, which makes it a run, is written last. Throws ConfigError if the folder exists or cannot be created. */
  static async create(options: NewTrainingRun): Promise<TrainingDirectory> {
    const path = resolve(options.outputDirectory, `${folderOfName(options.name)}--${options.id}`);
    let parents: readonly string[] = [];
    try {
      parents = makeFolder(options.outputDirectory);
      await mkdir(path);
    } catch (cause) {
      const { code, path: refused } = cause as NodeJS.ErrnoException;
      const remedy =
        code === 'EEXIST' && refused === path
          ? 'it exists: resume it with -R, or give the run another name'
          : `${folderProblem(path) ?? systemText(cause)}; choose another output folder`;
      throw new ConfigError(`Cannot create the run's folder ${path}: ${remedy}`, { cause });
    }
    const lock = await lockRun(path);
    const run: WireTrainingRun = {
      schema_version: 2,
      run_id: basename(path),
      name: options.name,
      started_at: options.startedAt.toISOString(),
      finished_at: null,
      config_digest: options.configDigest,
      settings: settingsIn(options.config),
      attempts: [],
    };
    const directory = new TrainingDirectory(path, lock, run);
    directory.#parents = parents;
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
   * Opens the folder of an earlier run. Throws ConfigError if it holds no run, a run of another version that cannot be read, or one that a living
   * process writes to. Only removes partial files and creates missing folders.
   */
  static async open(directory: string): Promise<TrainingDirectory> {
    const path = resolve(directory);
    await readTrainingRun(path);
    const lock = await lockRun(path);
    try {
      for (const name of await readdir(path)) if (/\.\d+\.tmp$/.test(name)) await unlink(join(path, name));
      for (const folder of FOLDERS) makeFolder(trainingPaths(path)[folder]);
      // Read again: another process may have written it before we got the lock.
      return new TrainingDirectory(path, lock, await readTrainingRun(path));
    } catch (cause) {
      await lock[Symbol.asyncDispose]();
      throw cause instanceof VfError ? cause : writeError(path, cause);
    }
  }

  get run(): WireTrainingRun {
    return this.#run;
  }

  /** Text of config.toml, or what `begin` will write there. */
  async readConfig(): Promise<string> {
    if (this.#nextConfig !== null) return this.#nextConfig.config;
    try {
      return await readRegularFile(this.paths.config);
    } catch (cause) {
      throw new ConfigError(`Cannot read the run's configuration ${this.paths.config}: ${systemText(cause)}`, { cause });
    }
  }

  /** Holds the changed settings of a resume until `begin` writes them, so that a start that fails leaves config.toml as it was. */
  changeConfig(changed: ConfigText): void {
    this.#nextConfig = changed;
  }

  /** Holds the digests of the run's inputs until `begin` writes them. */
  keepInputs(inputs: NonNullable<WireTrainingRun['inputs']>): void {
    this.#inputs = inputs;
  }

  /** Called before this process does any work: saves changed settings, and marks the run as unfinished. */
  async begin(): Promise<void> {
    const changed = this.#nextConfig;
    this.#nextConfig = null;
    if (changed !== null) await replaceFile(this.paths.config, (write) => write(Buffer.from(changed.config, 'utf8')));
    const inputs = this.#inputs ?? this.#run.inputs ?? {};
    const hasOthers = JSON.stringify(inputs) !== JSON.stringify(this.#run.inputs ?? {});
    if (changed === null && !hasOthers && this.#run.finished_at === null) return;
    await this.#save({
      ...this.#run,
      finished_at: null,
      ...(changed === null ? {} : { name: changed.name, config_digest: changed.configDigest, settings: settingsIn(changed.config) }),
      ...(hasOthers ? { inputs } : {}),
    });
  }

  /** Records that this process opened the run, with the versions of vf-search and Node. */
  async beginAttempt({ id, startedAt, packageVersion }: TrainingAttempt): Promise<void> {
    if (this.#run.attempts.some((attempt) => attempt.id === id)) {
      throw new ConfigError(`${this.path} already has an attempt "${id}"; use a new id, because published names contain it`);
    }
    const attempt = { id, started_at: startedAt.toISOString(), package_version: packageVersion, node_version: process.versions.node };
    await this.#save({ ...this.#run, attempts: [...this.#run.attempts, attempt] });
  }

  /** True if the run has rollouts, evaluations or checkpoints. */
  async holdsWork(): Promise<boolean> {
    const { rollouts, evaluations, checkpoints } = this.paths;
    const names = await Promise.all([rollouts, evaluations, checkpoints].map(namesIn));
    return names.flat().length > 0;
  }

  /** Removes the folder, and those above that were made for it, if the run never began: no work, and no server's log. */
  async removeUnused(): Promise<void> {
    if (existsSync(this.paths.policyLog) || (await this.holdsWork())) return;
    await rm(this.path, { recursive: true, force: true });
    // Another run may have begun in one of them.
    for (const folder of this.#parents) await rmdir(folder).catch(() => {});
  }

  /** Gives a run that goes on no further another name, in both files that record it. */
  async rename(name: string): Promise<void> {
    // JSON's escapes are valid TOML.
    const line = `name = ${JSON.stringify(name)}`;
    const text = await this.readConfig();
    const [head = ''] = text.split(/^\[/m, 1);
    const renamed = /^name *=.*$/m.test(head) ? head.replace(/^name *=.*$/m, () => line) : `${line}\n${head}`;
    await replaceFile(this.paths.config, (write) => write(Buffer.from(`${renamed}${text.slice(head.length)}`, 'utf8')));
    const { settings } = this.#run;
    await this.#save({ ...this.#run, name, ...(settings === undefined ? {} : { settings: { ...settings, name } }) });
  }

  /** Records that the run reached its last step. */
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

function settingsIn(config: string): Record<string, unknown> {
  return { ...parseToml(config, 'config.toml') };
}

/** Throws ConfigError if the folder holds no run that this version can read. */
export async function readTrainingRun(directory: string): Promise<WireTrainingRun> {
  const path = trainingPaths(directory).run;
  let text: string;
  try {
    text = await readRegularFile(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const isMissing = code === 'ENOENT' || code === 'ENOTDIR';
    if (!isMissing) throw new ConfigError(`Cannot read ${path}: ${systemText(cause)}`, { cause });
    if (!existsSync(directory))
      throw new ConfigError(`The folder ${directory} does not exist; name the folder of a run that vf-train printed`, { cause });
    throw new ConfigError(`${directory} is not the folder of a training run: it has no run.json; name the folder that vf-train printed`, { cause });
  }
  const parsed = parseWire(TrainingRunSchema, text);
  if ('problem' in parsed)
    throw new ConfigError(`${path} is not the record of a training run: ${parsed.problem}. Restore the file, or start a new run.`);
  return parsed.value;
}

/**
 * The most recently started matching run under `outputDirectory`; null if there is none. Ignores other folders.
 * @param damaged told of each folder whose `run.json` is there and cannot be read
 */
export async function newestTrainingRun(
  outputDirectory: string,
  matches: (run: WireTrainingRun, directory: string) => boolean,
  damaged: (directory: string, error: unknown) => void = () => {},
): Promise<string | null> {
  let newest: { path: string; startedAt: string } | null = null;
  for (const name of await namesIn(outputDirectory)) {
    const path = resolve(outputDirectory, name);
    if (!existsSync(trainingPaths(path).run)) continue;
    const run = await readTrainingRun(path).catch((error: unknown) => {
      damaged(path, error);
      return null;
    });
    if (run === null || !matches(run, path)) continue;
    if (newest === null || run.started_at > newest.startedAt) newest = { path, startedAt: run.started_at };
  }
  return newest?.path ?? null;
}
