/** Models of a Hugging Face hub: downloads the files of a model or an adapter that an engine or peft reads into the hub's own cache, which other tools share. */
import { existsSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { jsonObjectAt } from '../files/json-file.ts';
import { isObject } from '../schemas/is-object.ts';
import { ConfigError } from '../core/errors.ts';
import { otherKind, statIfThere } from '../files/regular-file.ts';
import { checkedCommit, downloadBlob, type HubFile } from './hub-blob.ts';
import { HubCache, hubCacheFolder } from './hub-cache.ts';
import { HubConnection, type HubConnectionOptions } from './hub-connection.ts';

export interface HubModelName {
  /** `owner/name`. */
  readonly name: string;
  /** A commit (40 hex digits), branch or tag. */
  readonly revision: string;
}

export interface HubModelOptions extends HubConnectionOptions {
  /** Checks the folder once everything but the weights is there; throws to refuse the model. */
  readonly check?: (folder: string) => Promise<void>;
  /** Called before files are downloaded. */
  readonly onDownload?: (files: number, bytes: number) => void;
}

/** Parses `owner/name` or `owner/name@revision`; null for anything else. */
export function parseHubModel(text: string): HubModelName | null {
  const [, name, revision = 'main'] = /^([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([\w.-]+(?:\/[\w.-]+)*))?$/.exec(text) ?? [];
  return name === undefined || `${name}/${revision}`.includes('..') ? null : { name, revision };
}

/** Why a name that looks like a hub id is not one: a file on this machine, or something else that is not a folder, has that name or its first part. Null if nothing does. */
export function namesakeProblem(asked: string): string | null {
  const [there, parent] = [statIfThere(asked), dirname(asked)];
  if (there?.isDirectory() === true) return null;
  if (there !== undefined) return `${asked} is ${kindOf(there)}, not the folder of a model`;
  const above = statIfThere(parent);
  return above === undefined || above.isDirectory() ? null : `${asked} is not the folder of a model, because ${parent} is ${kindOf(above)}`;
}

function kindOf(there: Stats): string {
  return otherKind(there) ?? 'a file';
}

/** Files at the top of a repository that describe a model, and its weights. Pickled weights can run code, so they are never read. */
const WANTED = /^[^/]+\.(?:json|jinja|safetensors|txt|model)$|^(?:README\.md|LICENSE[^/]*)$/i;
const WEIGHTS = /\.safetensors$/;

/**
 * The folder of the model's files, which are downloaded if they are missing. Without a network, or with HF_HUB_OFFLINE=1, earlier downloads are used. Throws
 * ConfigError for a model that does not exist or has no weights in safetensors.
 */
export async function fetchHubModel({ name, revision }: HubModelName, options: HubModelOptions): Promise<string> {
  const repository = { type: 'model', name } as const;
  const cache = new HubCache(hubCacheFolder(options.env), repository);
  const known = await knownCommit(cache, revision);
  if (isOffline(options.env)) return await usable({ name, revision }, options.env);
  const connection = new HubConnection(repository, options);
  let commit: string;
  let files: readonly HubFile[];
  try {
    commit = await commitOf(connection, revision);
    files = await filesOf(connection, commit);
  } catch (error) {
    if (!(error instanceof ConfigError) || !error.retryable || known === null || !isComplete(cache.snapshotFolder(known))) throw error;
    return cache.snapshotFolder(known);
  }
  if (commit !== revision) await cache.rememberCommit(revision, commit);
  const missing = files.filter(({ path }) => cache.find(commit, path) === null);
  if (!files.some(({ path }) => WEIGHTS.test(path)))
    throw new ConfigError(`The model ${name} at ${revision} has no weights in safetensors. Choose a repository that has them.`);
  if (missing.length > 0)
    options.onDownload?.(
      missing.length,
      missing.reduce((sum, { size, lfs }) => sum + (lfs?.size ?? size), 0),
    );
  // Small files come first: they show whether the weights are of use.
  const download = (file: HubFile) =>
    connection.call(file.path, (parameters) => downloadBlob(cache, commit, file, { ...parameters, repo: repository, revision: commit }));
  for (const file of missing.filter(({ path }) => !WEIGHTS.test(path))) await download(file);
  await options.check?.(cache.snapshotFolder(commit));
  for (const file of missing.filter(({ path }) => WEIGHTS.test(path))) await download(file);
  return cache.snapshotFolder(commit);
}

/** The commit of a revision according to the cache. */
async function knownCommit(cache: HubCache, revision: string): Promise<string | null> {
  return /^[0-9a-f]{40}$/.test(revision) ? revision : cache.findCommit(revision);
}

function commitOf(connection: HubConnection, revision: string): Promise<string> {
  if (/^[0-9a-f]{40}$/.test(revision)) return Promise.resolve(revision);
  return connection.call(`revision ${revision}`, async (parameters) => {
    const { modelInfo } = await import('@huggingface/hub');
    const { sha } = await modelInfo({ ...parameters, name: connection.repository.name, revision, additionalFields: ['sha'] });
    return checkedCommit(sha, revision);
  });
}

function filesOf(connection: HubConnection, commit: string): Promise<readonly HubFile[]> {
  return connection.call('the files', async (parameters) => {
    const { listFiles } = await import('@huggingface/hub');
    const files: HubFile[] = [];
    for await (const file of listFiles({ ...parameters, repo: connection.repository, revision: commit })) {
      // The name becomes a path of this machine.
      if (file.type === 'file' && WANTED.test(file.path) && !file.path.includes('..')) files.push(file);
    }
    return files;
  });
}

/** The folder of a model whose files are all in the cache, without asking the hub; else null. */
export async function downloadedModel({ name, revision }: HubModelName, env: HubConnectionOptions['env']): Promise<string | null> {
  const cache = new HubCache(hubCacheFolder(env), { type: 'model', name });
  const commit = await knownCommit(cache, revision);
  return commit !== null && isComplete(cache.snapshotFolder(commit)) ? cache.snapshotFolder(commit) : null;
}

/** True if HF_HUB_OFFLINE forbids asking the hub. */
export function isOffline(env: HubConnectionOptions['env']): boolean {
  return /^(1|on|yes|true)$/i.test(env['HF_HUB_OFFLINE'] ?? '');
}

async function usable(model: HubModelName, env: HubConnectionOptions['env']): Promise<string> {
  const folder = await downloadedModel(model, env);
  if (folder !== null) return folder;
  throw new ConfigError(
    `The model ${model.name} at ${model.revision} is not in the cache, and HF_HUB_OFFLINE forbids downloading it. Unset it, or download the model before.`,
  );
}

/** Weights are downloaded last, so a folder with all of them has everything else; a model of several files has an index. */
function isComplete(folder: string): boolean {
  const index = join(folder, 'model.safetensors.index.json');
  if (!existsSync(index)) return ['model.safetensors', 'adapter_model.safetensors'].some((name) => existsSync(join(folder, name)));
  const files = jsonObjectAt(index)?.['weight_map'];
  return isObject(files) && Object.values(files).every((name) => typeof name === 'string' && existsSync(join(folder, name)));
}
