/** The settings of a run, parsed again only if their file has changed: the configuration of a training run, the metadata of an evaluation. */
import { join } from 'node:path';
import { recordedInputs, withEnvironmentVersion } from '../core/environment-version.ts';
import { ConfigError, errorMessage } from '../core/errors.ts';
import { parseToml } from '../files/toml-text.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { resolveTrainingConfig } from '../trainer/config/resolve-config.ts';
import { readInside } from './files-inside.ts';
import type { FoundRun } from './find-runs.ts';
import { type Fields, fieldsOf } from './loose-fields.ts';

const MOST_BYTES = 16 * 2 ** 20;

export class RunSettings {
  readonly #run: FoundRun;
  #text: string | null = null;
  #fields: Fields = {};
  #config: TrainingConfig | null = null;

  constructor(run: FoundRun) {
    this.#run = run;
  }

  /** Empty if the file is missing. Throws ConfigError for a damaged one. */
  async read(): Promise<Fields> {
    const { kind, directory } = this.#run;
    const text = await readInside(directory, kind === 'training' ? 'config.toml' : 'metadata.json', MOST_BYTES);
    if (text === null) return {};
    if (text !== this.#text) {
      this.#fields = kind === 'training' ? parseToml(text, join(directory, 'config.toml')) : metadataOf(text, join(directory, 'metadata.json'));
      this.#config = null;
      this.#text = text;
    }
    return this.#fields;
  }

  /** Those that a result depends on: of an evaluation its recorded `config`, of both with the versions of their environment. Empty for a damaged file. */
  async ofResult(): Promise<Fields> {
    const fields = await this.read().catch((): Fields => ({}));
    if (this.#run.kind !== 'training') return withEnvironmentVersion(fieldsOf(fields['config']), ...recordedInputs(fields));
    const run = jsonOrNull((await readInside(this.#run.directory, 'run.json', MOST_BYTES).catch(() => null)) ?? '');
    return withEnvironmentVersion(fields, fieldsOf(run)['inputs']);
  }

  /** Of a training run, checked. Throws ConfigError for one that this version cannot use. */
  async config(): Promise<TrainingConfig> {
    const table = await this.read();
    return (this.#config ??= resolveTrainingConfig([{ source: 'config.toml', table }]).config);
  }
}

function metadataOf(text: string, path: string): Fields {
  try {
    return fieldsOf(JSON.parse(text));
  } catch (cause) {
    throw new ConfigError(`${path} is not valid JSON: ${errorMessage(cause as Error)}`, { cause });
  }
}
