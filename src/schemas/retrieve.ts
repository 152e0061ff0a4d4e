/**
 * The request of `POST /retrieve`, the protocol of Search-R1's retrieval servers (search_r1/search/retrieval_server.py, commit a14dc3a4). SkyRL's search client uses
 * it with `query` in place of `queries`. It coerces types as pydantic 2 does behind upstream's FastAPI, so that every client that works there works here; that is
 * why there is no JSON Schema.
 */
import { isObject } from './is-object.ts';
import { kindOrNumber } from './kind-of.ts';

export interface RetrieveRequest {
  readonly queries: readonly string[];
  /** Null for the server's default: absent, null, 0 or false, as in upstream's `if not topk`. */
  readonly topk: number | null;
  readonly returnScores: boolean;
}

/** The body of a request. Always requests scores, because upstream's server fails without. */
export function encodeRetrieveRequest(queries: readonly string[], topk: number): string {
  return JSON.stringify({ queries, topk, return_scores: true });
}

/** The body of a request to UltraRAG's `POST /search` (servers/retriever, `retriever_deploy_search`). */
export function encodeSearchRequest(queries: readonly string[], topk: number): string {
  return JSON.stringify({ query_list: queries, top_k: topk });
}

/** Reads UltraRAG's request: `query_list`, a list or one text, and `top_k`. Other keys are ignored, including `query_instruction`, which is for embeddings. */
export function parseSearchRequest(body: unknown): ParsedRetrieveRequest {
  if (!isObject(body)) return wrong('Expected a JSON object with "query_list"', body);
  const { query_list: given, top_k: topk = null } = body;
  const queries = typeof given === 'string' ? [given] : given;
  if (!Array.isArray(queries)) return wrong('query_list: expected a list of strings', given);
  const stranger = queries.findIndex((each) => typeof each !== 'string');
  if (stranger >= 0) return wrong(`query_list[${stranger}]: expected a string`, queries[stranger]);
  const count = topk === null ? 0 : coerceInteger(topk);
  if (count === null || count < 0) return wrong('top_k: expected an integer of at least 0', topk);
  return { ok: true, request: { queries, topk: count === 0 ? null : count, returnScores: false } };
}

export type ParsedRetrieveRequest = { readonly ok: true; readonly request: RetrieveRequest } | { readonly ok: false; readonly problem: string };

/** Unknown keys are ignored: upstream's variants send some. */
export function parseRetrieveRequest(body: unknown): ParsedRetrieveRequest {
  if (!isObject(body)) return wrong('Expected a JSON object with "queries"', body);
  const { topk = null, return_scores: scores = false } = body;
  // SkyRL's search client sends one query, under this name.
  const query = body['queries'] === undefined ? body['query'] : undefined;
  if (query !== undefined && typeof query !== 'string') return wrong('query: expected a string', query);
  const queries = query === undefined ? body['queries'] : [query];
  if (!Array.isArray(queries)) return wrong('queries: expected a list of strings', queries);
  const stranger = queries.findIndex((each) => typeof each !== 'string');
  if (stranger >= 0) return wrong(`queries[${stranger}]: expected a string`, queries[stranger]);
  const count = topk === null ? 0 : coerceInteger(topk);
  if (count === null || count < 0) return wrong('topk: expected an integer of at least 0', topk);
  const returnScores = coerceBoolean(scores);
  if (returnScores === null) return wrong('return_scores: expected true or false', scores);
  return { ok: true, request: { queries, topk: count === 0 ? null : count, returnScores } };
}

/** pydantic's lax integers: whole floats, booleans, and text such as " 3 ", "1_000" or "3.0". */
function coerceInteger(value: unknown): number | null {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value === 'number') return Number.isInteger(value) ? value : null;
  if (typeof value !== 'string' || !/^\s*[+-]?\d+(_\d+)*(\.0+)?\s*$/.test(value)) return null;
  return Number(value.replaceAll('_', ''));
}

const TRUE_WORDS = ['1', 'on', 't', 'true', 'y', 'yes'];
const FALSE_WORDS = ['0', 'off', 'f', 'false', 'n', 'no'];

/** pydantic's lax booleans. */
function coerceBoolean(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value;
  const word = typeof value === 'number' || typeof value === 'string' ? String(value).toLowerCase() : '';
  if (TRUE_WORDS.includes(word)) return true;
  return FALSE_WORDS.includes(word) ? false : null;
}

function wrong(expectation: string, value: unknown): ParsedRetrieveRequest {
  return { ok: false, problem: `${expectation}, got ${kindOrNumber(value)}` };
}
