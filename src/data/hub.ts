/**
 * Question files from the Hugging Face hub through `@huggingface/hub`, which is loaded only when a file is missing: with a pinned revision and a
 * filled cache no request is sent. The library's own cache function is not used: it prints to stdout and would keep a truncated download.
 */
import { ConfigError } from '../core/errors.ts';
import { checkedCommit, downloadBlob } from './hub-blob.ts';
import { HubCache, hubCacheFolder } from './hub-cache.ts';
import { HubConnection, type HubConnectionOptions } from './hub-connection.ts';

const FLASHRAG = 'RUC-NLPIR/FlashRAG_datasets';
/** A commit of FlashRAG_datasets, so that every run sees the same rows. */
export const FLASHRAG_REVISION = 'ad1ee41ccf627036706307ab28318c09600f4f42';
/** Search-R1 trains on the first and the fourth, and evaluates on all. */
export const FLASHRAG_SOURCES = ['nq', 'triviaqa', 'popqa', 'hotpotqa', '2wikimultihopqa', 'musique', 'bamboogle'] as const;

export interface HubName {
  readonly repository: string;
  /** Folder of the files in the repository; empty for its root. */
  readonly config: string;
  /** A commit (40 hex digits), branch or tag. */
  readonly revision: string;
  /** Value of `data_source`. */
  readonly source: string;
}

export interface HubOptions extends HubConnectionOptions {
  /** @default from `env`, else ~/.cache/huggingface/hub */
  readonly cacheDir?: string;
  /** A file with the name of the data set, such as `limo.jsonl` of `GAIR/LIMO`, is its split `train` if there is no other. @default false */
  readonly takesOwnName?: boolean;
}

/** Parses `nq`, `org/name` or `org/name/config`, each optionally followed by `@revision`; null for anything else. */
export function parseHubName(name: string): HubName | null {
  const [, id, revision] = /^([^@]+)(?:@([\w./-]+))?$/.exec(name) ?? [];
  if (id === undefined || /(^|[/@])(\.{1,2}(\/|$)|\/)/.test(name)) return null;
  if ((FLASHRAG_SOURCES as readonly string[]).includes(id)) {
    return { repository: FLASHRAG, config: id, revision: revision ?? FLASHRAG_REVISION, source: id };
  }
  const parts = id.split('/');
  if (parts.length < 2 || !parts.every((part) => /^[\w.-]+$/.test(part))) return null;
  const repository = parts.slice(0, 2).join('/');
  const config = parts.slice(2).join('/');
  const ours = repository === FLASHRAG;
  return { repository, config, revision: revision ?? (ours ? FLASHRAG_REVISION : 'main'), source: ours && config !== '' ? config : id };
}

/**
 * The file of a split, downloaded if necessary. `test` falls back to `dev`, then to `train`, as in upstream's scripts
 * (scripts/data_process/qa_search_test_merge.py); other splits have no fallback.
 */
export async function fetchHubSplit(
  name: HubName,
  split: string,
  options: HubOptions,
): Promise<{ readonly path: string; readonly file: string; readonly revision: string }> {
  if (!/^[\w-]{1,64}$/.test(split)) throw new ConfigError(`${JSON.stringify(split)} is not a split name. Use train, dev or test, for example.`);
  const repository = { type: 'dataset', name: name.repository } as const;
  const cache = new HubCache(options.cacheDir ?? hubCacheFolder(options.env), repository);
  const hub = new HubFiles(new HubConnection(repository, options));
  const commit = await resolveCommit(name, hub, cache);
  const files = filesOf(name, split, options);
  const absent: string[] = [];
  for (const file of files) {
    if (cache.isKnownAbsent(commit, file)) continue;
    const path = cache.find(commit, file) ?? (await hub.download(cache, commit, file));
    if (path === null) {
      absent.push(file);
      continue;
    }
    // Remembered only now: this file proves that repository and revision exist, so the others are really absent.
    for (const missing of absent) await cache.rememberAbsent(commit, missing);
    return { path, file, revision: commit };
  }
  const subset = name.config === '' ? `; a subset follows the name, as in ${name.repository}/SUBSET` : '';
  throw new ConfigError(
    `The data set ${name.repository} at ${name.revision} has no ${files.join(' or ')} on the hub. Check the name and the split${subset}.`,
  );
}

/** The files that may hold a split, in the order in which they are looked for. FlashRAG has JSON Lines alone; others also have Parquet, as Hugging Face's tools write it. */
function filesOf({ repository, config }: HubName, split: string, { takesOwnName = false }: HubOptions): string[] {
  const names = split === 'test' ? ['test', 'dev', 'train'] : [split];
  const folder = config === '' ? '' : `${config}/`;
  const files = names.flatMap((name) =>
    repository === FLASHRAG
      ? [`${folder}${name}.jsonl`]
      : [`${folder}${name}.jsonl`, `${folder}${name}.parquet`, `${folder === '' ? 'data/' : folder}${name}-00000-of-00001.parquet`],
  );
  if (takesOwnName && split === 'train') files.push(`${folder}${repository.slice(repository.indexOf('/') + 1).toLowerCase()}.jsonl`);
  return files;
}

/** Without a network, a branch resolves to the same commit as last time. */
async function resolveCommit({ revision }: HubName, hub: HubFiles, cache: HubCache): Promise<string> {
  if (/^[0-9a-f]{40}$/.test(revision)) return revision;
  try {
    const commit = await hub.commitOf(revision);
    await cache.rememberCommit(revision, commit);
    return commit;
  } catch (error) {
    const known = error instanceof ConfigError && error.retryable ? await cache.findCommit(revision) : null;
    if (known === null) throw error;
    return known;
  }
}

/** The files of a data set on a hub. */
class HubFiles {
  readonly #connection: HubConnection;

  constructor(connection: HubConnection) {
    this.#connection = connection;
  }

  async commitOf(revision: string): Promise<string> {
    return this.#connection.call(`revision ${revision}`, async (parameters) => {
      const { datasetInfo } = await import('@huggingface/hub');
      const { sha } = await datasetInfo({ ...parameters, name: this.#connection.repository.name, revision, additionalFields: ['sha'] });
      return checkedCommit(sha, revision);
    });
  }

  /** Path of the file in the cache, or null if the repository has no such file. */
  async download(cache: HubCache, commit: string, file: string): Promise<string | null> {
    return this.#connection.call(file, async (parameters) => {
      const { pathsInfo } = await import('@huggingface/hub');
      const at = { ...parameters, repo: this.#connection.repository, revision: commit };
      try {
        const [info] = await pathsInfo({ ...at, paths: [file], expand: true });
        return info === undefined ? null : await downloadBlob(cache, commit, { ...info, path: file }, at);
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode === 404) return null;
        throw error;
      }
    });
  }
}
