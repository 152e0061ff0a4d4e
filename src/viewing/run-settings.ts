/** The settings and the record of a run, parsed again only if their file has changed: `config.toml` and `run.json` of a training run, `metadata.json` of an evaluation. */
import { recordedInputs, withEnvironmentVersion } from '../core/environment-version.ts';
import { readJson } from '../core/read-json.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { ConfigError, errorMessage } from '../core/errors.ts';
import { parseToml } from '../files/toml-text.ts';
import { isObject } from '../schemas/is-object.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { resolveTrainingConfig } from '../trainer/config/resolve-config.ts';
import { type FieldKinds, kindProblem } from './field-kinds.ts';
import { readInside } from './files-inside.ts';
import type { FoundRun } from './find-runs.ts';
import { type Fields, fieldsOf } from './loose-fields.ts';

const MOST_BYTES = 16 * 2 ** 20;

/** The fields that the page shows or computes with. */
const KINDS = {
  'metadata.json': {
    name: 'text',
    env_id: 'text',
    env_args: 'object',
    model: 'text',
    num_examples: 'number',
    rollouts_per_example: 'number',
    num_planned: 'number',
    num_finished: 'number',
    num_errored: 'number',
    avg_reward: 'number',
    time: 'number',
    complete: 'flag',
    started_at: 'text',
    updated_at: 'text',
    sampling_args: 'object',
    policy: 'object',
    config: 'object',
    sessions: 'list',
    scorings: 'list',
    roles: 'object',
    cost: 'object',
  },
  'run.json': { started_at: 'text', finished_at: 'text', attempts: 'list', inputs: 'object' },
  'config.toml': { name: 'text', steps: 'number', seed: 'number', model: 'object', environment: 'object', policy: 'object', sft: 'object' },
} as const satisfies Readonly<Record<string, FieldKinds>>;

type Name = keyof typeof KINDS;

/** A file with one object. */
class SettingsFile {
  readonly name: Name;
  readonly #directory: string;
  #text: string | null = null;
  #fields: Fields = {};

  constructor(directory: string, name: Name) {
    this.#directory = directory;
    this.name = name;
  }

  /** Empty if the file is missing. Throws ConfigError for a damaged one. */
  async read(): Promise<Fields> {
    const text = await readInside(this.#directory, this.name, MOST_BYTES);
    if (text === null) return {};
    if (text !== this.#text) {
      this.#fields = this.name === 'config.toml' ? parseToml(text, this.name) : jsonFields(text, this.name);
      this.#text = text;
    }
    return this.#fields;
  }

  async problem(): Promise<string | null> {
    const wrong = kindProblem(await this.read(), KINDS[this.name]);
    return wrong === null ? null : `${this.name} is damaged: ${wrong}, so it counts as missing.`;
  }
}

export class RunSettings {
  readonly #run: FoundRun;
  readonly #settings: SettingsFile;
  /** Null for an evaluation, whose settings are in its record. */
  readonly #record: SettingsFile | null;
  #config: { readonly table: Fields; readonly config: TrainingConfig } | null = null;

  constructor(run: FoundRun) {
    this.#run = run;
    const isTraining = run.kind === 'training';
    this.#settings = new SettingsFile(run.directory, isTraining ? 'config.toml' : 'metadata.json');
    this.#record = isTraining ? new SettingsFile(run.directory, 'run.json') : null;
  }

  /** The files, with what is wrong with each. */
  get files(): { readonly name: string; readonly isNeeded: true; readonly read: () => Promise<(string | null)[]> }[] {
    const files = this.#record === null ? [this.#settings] : [this.#record, this.#settings];
    return files.map((file) => ({ name: file.name, isNeeded: true, read: async () => [await file.problem()] }));
  }

  /** Empty if the file is missing. Throws ConfigError for a damaged one. */
  read(): Promise<Fields> {
    return this.#settings.read();
  }

  /** As `read`, but empty for a damaged file too. */
  async readable(): Promise<Fields> {
    return await this.read().catch((): Fields => ({}));
  }

  /** The content of `run.json`; empty if it is missing or damaged, and for an evaluation. */
  async record(): Promise<Fields> {
    return (await this.#record?.read().catch((): Fields => ({}))) ?? {};
  }

  /**
   * Those that a result depends on: of an evaluation its recorded `config`, of both with the versions of their environment. Empty for a damaged file.
   * @param whole gives settings that changed between the steps of a training all of their values
   */
  async ofResult(whole: (settings: Fields) => Fields): Promise<Fields> {
    const fields = await this.readable();
    if (this.#run.kind !== 'training') return withEnvironmentVersion(fieldsOf(fields['config']), ...recordedInputs(fields));
    return withEnvironmentVersion(whole(fields), (await this.record())['inputs']);
  }

  /** Of a training run, checked. Throws ConfigError for one that this version cannot use. */
  async config(): Promise<TrainingConfig> {
    const table = await this.read();
    if (this.#config?.table !== table) this.#config = { table, config: resolveTrainingConfig([{ source: 'config.toml', table }]).config };
    return this.#config.config;
  }
}

function jsonFields(text: string, name: Name): Fields {
  let value: unknown;
  try {
    value = readJson(text);
  } catch (cause) {
    throw new ConfigError(`${name} is damaged: it is not valid JSON (${errorMessage(cause as Error)}). Restore the file.`, { cause });
  }
  if (isObject(value)) return value;
  throw new ConfigError(`${name} is damaged: it holds ${kindOf(value)} where an object belongs. Restore the file.`);
}
