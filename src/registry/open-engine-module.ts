/** Opens a search engine of the user's own: a module that exports `createRetriever`. */
import { resolve } from 'node:path';
import { CancelledError, ConfigError, RetrievalError, thrownText, VfError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { cached } from '../retrieval/cached.ts';
import type { Passage, Retriever, SearchOptions } from '../retrieval/retriever.ts';
import { isObject } from '../schemas/is-object.ts';
import { withRetries } from '../transport/retry.ts';
import { moduleFunction } from './load-export.ts';
import { type SearchPace, spaced } from './search-pace.ts';

/** The context of `createRetriever`. */
export interface EngineContext {
  /** Environment variables, for keys and addresses. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted when the run stops while the engine opens. */
  readonly signal: AbortSignal;
}

/**
 * The type of a module's export `createRetriever`, which `engine: './my-engine.ts'` names.
 * @example
 * export const createRetriever: CreateRetriever = ({ env }) => ({
 *   name: 'my engine',
 *   search: async (queries, { topk, signal }) => Promise.all(queries.map((query) => ask(query, topk, { key: env.MY_KEY, signal }))),
 *   close: async () => {},
 * });
 */
export type CreateRetriever = (context: EngineContext) => Retriever | Promise<Retriever>;

/** True for a value that names a module and not an engine of the package: it has a folder or an extension. */
export function isEngineModule(engine: string): boolean {
  return /[\\/]|\.[cm]?[jt]s$/.test(engine);
}

/** Throws ConfigError, which names what the module lacks. Repeated searches are answered from a cache, as with the engines of the package. */
export async function openEngineModule(
  path: string,
  {
    env,
    signal = new AbortController().signal,
    ...pace
  }: SearchPace & { readonly env: EngineContext['env']; readonly signal?: AbortSignal | undefined },
): Promise<Retriever> {
  const create = (await moduleFunction(resolve(path), 'createRetriever', 'engine')) as unknown as CreateRetriever;
  let made: unknown;
  try {
    made = await create({ env, signal });
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`createRetriever of ${path} (engine) failed: ${thrownText(cause)}`, { cause });
  }
  const lack = lackOf(made);
  if (lack !== null) throw new ConfigError(`createRetriever of ${path} (engine) must return a Retriever: ${lack}. Give it { name, search, close }.`);
  return cached(spaced(new ModuleRetriever(path, made as Retriever, pace), pace));
}

function lackOf(value: unknown): string | null {
  if (!isObject(value)) return `it returned ${value === null ? 'null' : typeof value}`;
  if (typeof value['name'] !== 'string' || value['name'] === '') return 'its name is not a non-empty string';
  const method = (['search', 'close'] as const).find((name) => typeof value[name] !== 'function');
  return method === undefined ? null : `it has no method ${method}`;
}

/** Checks what the engine returns, and retries its failures: any error but a cancellation. */
class ModuleRetriever implements Retriever {
  readonly name: string;
  readonly #path: string;
  readonly #inner: Retriever;
  readonly #retry: { readonly timeoutMs: number; readonly maxRetries: number; readonly random: Random };

  constructor(path: string, inner: Retriever, { timeoutMs = 60_000, maxRetries = 4 }: SearchPace) {
    this.name = inner.name;
    this.#path = path;
    this.#inner = inner;
    this.#retry = { timeoutMs, maxRetries, random: Random.fromSeed(0).fork(path) };
  }

  search(queries: readonly string[], { topk, signal }: SearchOptions) {
    return withRetries((attempt) => this.#ask(queries, topk, attempt), { ...this.#retry, signal });
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #ask(queries: readonly string[], topk: number, signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    let lists: unknown;
    try {
      lists = await this.#inner.search(queries, { topk, signal });
    } catch (cause) {
      if (cause instanceof VfError) throw cause;
      if (signal.aborted) throw new CancelledError(`Stopped a search of ${this.#path}`, { cause });
      throw new RetrievalError(`The search engine ${this.#path} failed: ${thrownText(cause)}`, { cause, retryable: true });
    }
    const problem = answerProblem(lists, queries.length);
    if (problem !== null)
      throw new RetrievalError(`The search engine ${this.#path} ${problem}. It must return a list of { contents } for each query.`);
    return lists as readonly (readonly Passage[])[];
  }
}

function answerProblem(lists: unknown, count: number): string | null {
  if (!Array.isArray(lists)) return `returned ${lists === null ? 'null' : typeof lists}`;
  if (lists.length !== count) return `returned ${lists.length} lists for ${count} ${count === 1 ? 'query' : 'queries'}`;
  const isPassage = (passage: unknown) => isObject(passage) && typeof passage['contents'] === 'string';
  const wrong = lists.findIndex((list) => !Array.isArray(list) || !list.every(isPassage));
  return wrong < 0 ? null : `returned something else than passages for query ${wrong + 1}`;
}
