/**
 * The checkpoints of trained models, in the state folder of the server: MODEL/run.json, MODEL/weights/NAME/{state,adapter} and MODEL/{sampler,external}_weights/NAME/adapter. A
 * checkpoint gets its name only when it is complete. After a kill, every checkpoint that a client was told of is there, and no half-written one is.
 */
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { XStatic } from 'typebox/schema';
import { ConfigError } from '../../core/errors.ts';
import { parseJson } from '../../files/json-file.ts';
import { readRegularFile, statIfThere } from '../../files/regular-file.ts';
import { replaceFile, syncDirectory } from '../../files/json-lines.ts';
import { hidden, temporaryPrefix } from '../../files/temporary-names.ts';
import { writeFolder } from '../../files/write-folder.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import { type CheckpointFile, checkpointFileSchema, type RunFile, runFileSchema } from '../../schemas/tinker/checkpoints.ts';
import { CHECKPOINT_KINDS, type CheckpointPath, checkpointUri, modelFolder } from './checkpoint-path.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

export interface Checkpoint extends CheckpointPath {
  readonly uri: string;
  /** Holds `adapter`, and `state` in one of `weights`. */
  readonly folder: string;
  readonly file: CheckpointFile;
}

export interface SaveOptions {
  /** @default stays until it is deleted */
  readonly ttlSeconds: number | null;
  /** Replaces one of the same name. */
  readonly overwrite: boolean;
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Writes what it holds into the folder. */
  readonly fill: (folder: string) => Promise<void>;
}

/** As the hosted service has it. */
const LONGEST_TTL_SECONDS = 3650 * 24 * 3600;
const [RUN, CHECKPOINT] = ['run.json', 'checkpoint.json'] as const;
/** Before the name of a checkpoint that is whole and about to take the place of another; no checkpoint's name begins so. */
const NEWER = '.newer~';

export class Checkpoints {
  readonly #root: string;

  /** @param root exists */
  constructor(root: string) {
    this.#root = root;
  }

  /** Makes a trained model known. */
  async addRun(run: RunFile): Promise<void> {
    await writeFolder(this.#folderOf(run.model_id), (folder) => writeFile(join(folder, RUN), jsonText(run), { flush: true }));
  }

  /** Forgets a model that is trained no more, if it has no checkpoint: nobody can come back to it. */
  async forgetEmpty(modelId: string): Promise<void> {
    const folder = this.#folderOf(modelId);
    if (statIfThere(folder) !== undefined && (await this.list(modelId)).length === 0) await this.#remove(folder);
  }

  async run(modelId: string): Promise<RunFile | null> {
    const folder = modelFolder(modelId);
    if (folder === null || statIfThere(join(this.#root, folder, RUN)) === undefined) return null;
    return read(runFileSchema, join(this.#root, folder, RUN));
  }

  /** The latest first. */
  async runs(): Promise<readonly RunFile[]> {
    const found: RunFile[] = [];
    for (const name of await readdir(this.#root)) {
      const path = join(this.#root, name, RUN);
      if (!name.startsWith('.') && statIfThere(path) !== undefined) found.push(await read(runFileSchema, path));
    }
    return found.toSorted((a, b) => b.created.localeCompare(a.created));
  }

  /** Those that have not expired, the latest first. */
  async list(modelId: string): Promise<readonly Checkpoint[]> {
    const found: Checkpoint[] = [];
    for (const kind of CHECKPOINT_KINDS) {
      for (const name of await readdir(join(this.#folderOf(modelId), kind)).catch(() => [])) {
        // What a killed process left has a name that no checkpoint may have.
        const checkpoint = name.startsWith('.') || name.endsWith('.tmp') ? null : await this.find({ modelId, kind, name });
        if (checkpoint !== null) found.push(checkpoint);
      }
    }
    return found.toSorted((a, b) => b.file.time.localeCompare(a.file.time));
  }

  /** Rejects with TinkerRefusal (404) if it is not there or has expired. */
  async get(path: CheckpointPath): Promise<Checkpoint> {
    const found = await this.find(path);
    if (found === null)
      throw new TinkerRefusal(404, `There is no checkpoint ${checkpointUri(path)}; it was never saved, was deleted, or has expired`);
    return found;
  }

  /** Rejects with TinkerRefusal (409) for a name that is taken. */
  async save(path: CheckpointPath, { ttlSeconds, overwrite, metadata, fill }: SaveOptions): Promise<Checkpoint> {
    const folder = join(this.#folderOf(path.modelId), path.kind, path.name);
    const isThere = (await this.find(path)) !== null;
    if (isThere && !overwrite) throw new TinkerRefusal(409, `${checkpointUri(path)} exists already; choose another name`);
    // The earlier one stays until this one is whole.
    const target = isThere ? join(folder, '..', `${NEWER}${path.name}`) : folder;
    if (isThere) await rm(target, { recursive: true, force: true });
    await writeFolder(target, async (whole) => {
      await fill(whole);
      const time = new Date();
      const file: CheckpointFile = {
        time: time.toISOString(),
        bytes: await sizeOf(whole),
        expires_at: expiry(time, ttlSeconds),
        user_metadata: metadata,
      };
      await writeFile(join(whole, CHECKPOINT), jsonText(file), { flush: true });
    });
    if (isThere) {
      await this.#remove(folder);
      await rename(target, folder);
      await syncDirectory(join(folder, '..'));
    }
    return this.get(path);
  }

  /** Counts from now; null keeps it until it is deleted. Rejects with TinkerRefusal (404) if it is not there. */
  async setTtl(path: CheckpointPath, ttlSeconds: number | null): Promise<void> {
    const { folder, file } = await this.get(path);
    const text = jsonText({ ...file, expires_at: expiry(new Date(), ttlSeconds) });
    await replaceFile(join(folder, CHECKPOINT), (write) => write(Buffer.from(text)));
  }

  /** Rejects with TinkerRefusal (404) if it is not there. */
  async delete(path: CheckpointPath): Promise<void> {
    await this.#remove((await this.get(path)).folder);
  }

  /** Null if it is not there or has expired; then it is removed. */
  async find(path: CheckpointPath): Promise<Checkpoint | null> {
    const folder = join(this.#folderOf(path.modelId), path.kind, path.name);
    if (statIfThere(join(folder, CHECKPOINT)) === undefined) return null;
    const file = await read(checkpointFileSchema, join(folder, CHECKPOINT));
    if (typeof file.expires_at === 'string' && Date.parse(file.expires_at) <= Date.now()) {
      await this.#remove(folder);
      return null;
    }
    return { ...path, uri: checkpointUri(path), folder, file };
  }

  /** In one step, so that nobody finds half of it. */
  async #remove(folder: string): Promise<void> {
    const aside = mkdtempSync(temporaryPrefix(hidden(folder)));
    await rename(folder, join(aside, 'old'));
    await rm(aside, { recursive: true, force: true });
  }

  #folderOf(modelId: string): string {
    const name = modelFolder(modelId);
    if (name === null) throw new TinkerRefusal(404, `There is no model ${JSON.stringify(modelId.slice(0, 64))} at this server`);
    return join(this.#root, name);
  }
}

/** Makes the folder of a server's state. Rejects with ConfigError if there can be none. */
export async function makeState(root: string): Promise<void> {
  try {
    await mkdir(root, { recursive: true });
  } catch (cause) {
    throw new ConfigError(`Checkpoints cannot be kept in ${root}: ${(cause as Error).message}. Choose another folder (--state)`, { cause });
  }
}

/** Ends what a killed server began: a checkpoint that was to take the place of another does so, unless the other is still there. No server may run on the folder. */
export async function finishReplacements(root: string): Promise<void> {
  for (const run of await readdir(root)) {
    for (const kind of CHECKPOINT_KINDS) {
      const folder = join(root, run, kind);
      for (const name of await readdir(folder).catch(() => [])) {
        if (!name.startsWith(NEWER)) continue;
        const target = join(folder, name.slice(NEWER.length));
        if (statIfThere(target) === undefined && statIfThere(join(folder, name, CHECKPOINT)) !== undefined) await rename(join(folder, name), target);
        else await rm(join(folder, name), { recursive: true, force: true });
      }
    }
  }
}

async function read<S extends object>(schema: S, path: string): Promise<XStatic<S>> {
  const value = parseJson(await readRegularFile(path), path);
  const check = schemaCheck(schema);
  if (!check(value)) throw new TinkerRefusal(500, `${path} is damaged: ${schemaProblem(check, 'it')}`);
  return value;
}

/** Throws TinkerRefusal for a time that no date can say. */
function expiry(from: Date, ttlSeconds: number | null): string | null {
  if (ttlSeconds === null) return null;
  if (ttlSeconds > LONGEST_TTL_SECONDS)
    throw new TinkerRefusal(400, `ttl_seconds must be at most ${LONGEST_TTL_SECONDS}, ten years, got ${ttlSeconds}`);
  return new Date(from.getTime() + ttlSeconds * 1000).toISOString();
}

function jsonText(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  return bytes;
}
