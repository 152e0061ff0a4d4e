/**
 * Question files from the Hugging Face hub through `@huggingface/hub`, which is loaded only when a file is missing: with a pinned revision and a
 * filled cache no request is sent. The library's own cache function is not used: it prints to stdout and would keep a truncated download.
 */
import { CancelledError, ConfigError, describeError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { withRetries } from '../transport/retry.ts';
import { HubCache, hubCacheFolder } from './hub-cache.ts';

const FLASHRAG = 'RUC-NLPIR/FlashRAG_datasets';
/** A commit of FlashRAG_datasets, so that every run sees the same rows. */
export const FLASHRAG_REVISION = 'ad1ee41ccf627036706307ab28318c09600f4f42';
/** Search-R1 trains on the first and the fourth, and evaluates on all. */
export const FLASHRAG_SOURCES = ['nq', 'triviaqa', 'popqa', 'hotpotqa', '2wikimultihopqa', 'musique', 'bamboogle'] as const;

const HUB_URL = 'https://huggingface.co';
const HEADERS_TIMEOUT_MS = 30_000;

export interface HubName {
  readonly repository: string;
  /** Folder of the files in the repository; empty for its root. */
  readonly config: string;
  /** A commit (40 hex digits), branch or tag. */
  readonly revision: string;
  /** Value of `data_source`. */
  readonly source: string;
}

export interface HubOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** @default from `env`, else ~/.cache/huggingface/hub */
  readonly cacheDir?: string;
  readonly signal?: AbortSignal;
  /** A file with the name of the data set, such as `limo.jsonl` of `GAIR/LIMO`, is its split `train` if there is no other. @default false */
  readonly takesOwnName?: boolean;
  /** Delay before the first retry. @default 500 */
  readonly retryDelayMs?: number;
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
  const cache = new HubCache(options.cacheDir ?? hubCacheFolder(options.env), name.repository);
  const hub = new Hub(name.repository, options);
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
  throw new ConfigError(`The data set ${name.repository} at ${name.revision} has no ${files.join(' or ')} on the hub. Check the name and the split.`);
}

/** The files that may hold a split, in the order in which they are looked for. */
function filesOf({ repository, config }: HubName, split: string, { takesOwnName = false }: HubOptions): string[] {
  const names = split === 'test' ? ['test', 'dev', 'train'] : [split];
  if (takesOwnName && split === 'train') names.push(repository.slice(repository.indexOf('/') + 1).toLowerCase());
  return names.map((name) => `${config === '' ? '' : `${config}/`}${name}.jsonl`);
}

/** Without a network, a branch resolves to the same commit as last time. */
async function resolveCommit({ revision }: HubName, hub: Hub, cache: HubCache): Promise<string> {
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

/** One repository on one hub. Every failure is a ConfigError that says what to do. */
class Hub {
  readonly #repository: string;
  readonly #hubUrl: string;
  readonly #token: string;
  readonly #options: HubOptions;

  constructor(repository: string, options: HubOptions) {
    this.#repository = repository;
    this.#options = options;
    this.#hubUrl = (options.env['HF_ENDPOINT']?.trim() || HUB_URL).replace(/\/+$/, '');
    this.#token = options.env['HF_TOKEN']?.trim() ?? '';
    if (!/^https?:\/\//.test(this.#hubUrl)) throw new ConfigError(`HF_ENDPOINT must be an http(s) URL, got ${redactUrl(this.#hubUrl)}.`);
    if (this.#token !== '' && !this.#token.startsWith('hf_'))
      throw new ConfigError('HF_TOKEN is not a Hugging Face token: it does not start with hf_.');
  }

  async commitOf(revision: string): Promise<string> {
    return this.#retry(`revision ${revision}`, async (params) => {
      const { datasetInfo } = await import('@huggingface/hub');
      const { sha } = await datasetInfo({ ...params, name: this.#repository, revision, additionalFields: ['sha'] });
      if (!/^[0-9a-f]{40}$/.test(sha)) throw new ConfigError(`The hub sent an invalid commit for ${revision}: ${JSON.stringify(sha)}.`);
      return sha;
    });
  }

  /** Path of the file in the cache, or null if the repository has no such file. */
  async download(cache: HubCache, commit: string, file: string): Promise<string | null> {
    return this.#retry(file, async (params) => {
      const { downloadFile, pathsInfo } = await import('@huggingface/hub');
      const at = { ...params, repo: { type: 'dataset', name: this.#repository } as const, revision: commit };
      try {
        const [info] = await pathsInfo({ ...at, paths: [file], expand: true });
        if (info === undefined) return null;
        const blob = {
          etag: info.lfs?.oid ?? info.xetHash ?? info.oid ?? '',
          bytes: info.lfs?.size ?? info.size,
          ...(info.lfs && /^[0-9a-f]{64}$/.test(info.lfs.oid) && { sha256: info.lfs.oid }),
        };
        return await cache.store(commit, file, blob, async () => {
          // Plain HTTP: Xet saves nothing on files of this size, and the hub serves every file both ways.
          const content = await downloadFile({ ...at, path: file, xet: false });
          if (content === null) throw new ConfigError(`The hub lists ${file} in ${this.#repository} but could not send it.`);
          return content.stream();
        });
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode === 404) return null;
        throw error;
      }
    });
  }

  async #retry<T>(what: string, call: (params: HubParameters) => Promise<T>): Promise<T> {
    const { signal = new AbortController().signal, retryDelayMs } = this.#options;
    return withRetries(
      async (attempt) => {
        try {
          return await call({
            hubUrl: this.#hubUrl,
            fetch: boundedFetch(attempt),
            ...(this.#token !== '' && { accessToken: this.#token }),
          });
        } catch (error) {
          if (signal.aborted) throw new CancelledError(`Stopped fetching ${what}`, { cause: signal.reason });
          throw this.#explain(what, error);
        }
      },
      { signal, timeoutMs: Infinity, maxRetries: 3, random: Random.fromSeed(0), ...(retryDelayMs !== undefined && { baseDelayMs: retryDelayMs }) },
    );
  }

  #explain(what: string, error: unknown): ConfigError {
    if (error instanceof ConfigError) return error;
    const where = `${what} of the data set ${this.#repository} from ${redactUrl(this.#hubUrl)}`;
    const { statusCode: status, code } = error as { statusCode?: number; code?: string };
    if (status === 401 || status === 403) {
      const remedy =
        this.#token === ''
          ? 'it does not exist, or is private or gated. Check the name, or set HF_TOKEN to a token with access.'
          : 'the token in HF_TOKEN is invalid or has no access. Check the name and the token.';
      return new ConfigError(`Could not fetch ${where} (${status}): ${remedy}`, { cause: error, status });
    }
    if (code === 'ENOSPC' || code === 'EACCES' || code === 'EROFS' || code === 'ENOTDIR') {
      return new ConfigError(`Could not write ${what} to the cache (${code}). Set HF_HOME to a writable folder with free space.`, {
        cause: error,
      });
    }
    const text = redactSecrets(redactUrl(typeof error === 'string' ? error : describeError(error)), [this.#token]).slice(0, 300);
    return new ConfigError(
      `Could not fetch ${where}: ${text}. Check the network and HF_ENDPOINT, or fill the cache once on a machine that can reach the hub.`,
      {
        cause: error,
        retryable: status === undefined || status === 429 || status >= 500,
        ...(status !== undefined && { status }),
      },
    );
  }
}

interface HubParameters {
  readonly hubUrl: string;
  readonly fetch: typeof fetch;
  readonly accessToken?: string;
}

/** Adds a deadline for a hub that accepts a request but never answers; fetch itself ends a stalled body (5 minutes). */
function boundedFetch(signal: AbortSignal): typeof fetch {
  return async (input, init) => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`no answer within ${HEADERS_TIMEOUT_MS / 1000} s`)), HEADERS_TIMEOUT_MS);
    try {
      return await fetch(input, { ...init, signal: AbortSignal.any([signal, late.signal]) });
    } finally {
      clearTimeout(timer);
    }
  };
}
