/** The folder of an ablation: `<output_dir>/train/ablations/<name>--<id>/` with `ablation.json` and its table. Its runs have folders of their own, like any run. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { ConfigError } from '../../core/errors.ts';
import { replaceFile, writeError } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { lockRun } from '../../files/run-lock.ts';
import { AblationSchema, type WireAblation, type WireAblationRun } from '../../schemas/ablation.ts';
import { parseWire } from '../../schemas/results.ts';
import { folderOfName } from '../../schemas/run-name.ts';
import { systemText } from '../../files/system-text.ts';

const RECORD = 'ablation.json';
const TABLE = 'table.md';
const FOLDER = 'ablations';

export function isAblation(directory: string): boolean {
  return existsSync(join(directory, RECORD));
}

/** Throws ConfigError if the folder holds no record that this version can read. */
export async function readAblation(directory: string): Promise<WireAblation> {
  const path = join(directory, RECORD);
  const text = await readRegularFile(path).catch((cause: unknown) => {
    throw new ConfigError(`Cannot read ${path}: ${systemText(cause)}`, { cause });
  });
  const parsed = parseWire(AblationSchema, text);
  if ('value' in parsed) return parsed.value;
  throw new ConfigError(`${path} is not the record of an ablation: ${parsed.problem}. Restore the file, or start the ablation again without -R.`);
}

/** The folder of a run; null before it has begun. */
export function ablationRunFolder(directory: string, { folder }: Pick<WireAblationRun, 'folder'>): string | null {
  return folder === null ? null : resolve(directory, '..', '..', folder);
}

/**
 * The most recently started ablation of this name among the runs under `runsFolder`; null if there is none. Ignores other folders. Throws ConfigError if the record in a
 * folder of this name cannot be read: its runs would be played a second time.
 */
export async function newestAblation(runsFolder: string, name: string): Promise<string | null> {
  let newest: { readonly path: string; readonly startedAt: string } | null = null;
  const folder = join(runsFolder, FOLDER);
  for (const entry of await namesIn(folder)) {
    const path = join(folder, entry);
    const record = await readAblation(path).catch((error: unknown) => {
      if (entry.slice(0, entry.lastIndexOf('--')) === folderOfName(name)) throw error;
      return null;
    });
    if (record?.name !== name || (newest !== null && record.started_at <= newest.startedAt)) continue;
    newest = { path, startedAt: record.started_at };
  }
  return newest?.path ?? null;
}

/** Locked for writing by this process until disposed. */
export class AblationDirectory implements AsyncDisposable {
  /** Absolute. */
  readonly path: string;
  readonly #lock: AsyncDisposable;
  #record: WireAblation;

  private constructor(path: string, lock: AsyncDisposable, record: WireAblation) {
    this.path = path;
    this.#lock = lock;
    this.#record = record;
  }

  /** @param id short and unique: the folder is `<name>--<id>` */
  static async create(runsFolder: string, id: string, record: WireAblation): Promise<AblationDirectory> {
    const path = join(runsFolder, FOLDER, `${folderOfName(record.name)}--${id}`);
    makeFolder(path);
    const directory = new AblationDirectory(path, await lockRun(path), record);
    await directory.#save(record);
    return directory;
  }

  /** Takes over the folder of an earlier process, with these runs in place of the recorded ones. */
  static async reopen(path: string, runs: readonly WireAblationRun[]): Promise<AblationDirectory> {
    const lock = await lockRun(path);
    const record = await readAblation(path);
    const directory = new AblationDirectory(path, lock, record);
    await directory.#save({ ...record, finished_at: null, runs: [...runs] });
    return directory;
  }

  get runs(): readonly WireAblationRun[] {
    return this.#record.runs;
  }

  /** Records what became of a run. */
  async update(index: number, changed: Partial<Pick<WireAblationRun, 'folder' | 'state' | 'reason' | 'usd'>>): Promise<void> {
    await this.#save({ ...this.#record, runs: this.#record.runs.map((run, i) => (i === index ? { ...run, ...changed } : run)) });
  }

  /** Writes the table, as Markdown. */
  async writeTable(table: string): Promise<void> {
    await this.#write(TABLE, table);
  }

  async finish(finishedAt: Date): Promise<void> {
    await this.#save({ ...this.#record, finished_at: finishedAt.toISOString() });
  }

  async #save(record: WireAblation): Promise<void> {
    await this.#write(RECORD, `${JSON.stringify(record, null, 2)}\n`);
    this.#record = record;
  }

  async #write(name: string, text: string): Promise<void> {
    const path = join(this.path, name);
    await replaceFile(path, (write) => write(Buffer.from(text, 'utf8'))).catch((cause: unknown) => {
      throw writeError(path, cause);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lock[Symbol.asyncDispose]();
  }
}
