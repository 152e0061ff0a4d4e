/**
 * Parses servers' answers to `POST /retrieve` into passages. Accepts the shapes of all of upstream's servers: the local one sends
 * `{document, score}`, the online ones no score, the reranking one the document as a string, and slime's bare documents.
 */
import { isObject } from '../schemas/is-object.ts';
import { parseAnswer, type ParsedAnswer } from './parsed-answer.ts';
import type { Passage } from './retriever.ts';
import { onOneLine } from '../schemas/on-one-line.ts';

/**
 * Reads `{result: [[...], ...]}` with one list per query. Lists may be empty, shorter than requested, or longer (web engines).
 * @param key UltraRAG's servers have `ret_psg` in place of `result`
 */
export function parsePassages(body: Buffer, queryCount: number, key: 'result' | 'ret_psg' = 'result'): ParsedAnswer<readonly (readonly Passage[])[]> {
  return parseAnswer(body, (json) => readLists(json, queryCount, key));
}

function readLists(json: unknown, queryCount: number, key: string): Passage[][] | string {
  const result = isObject(json) ? json[key] : undefined;
  if (!Array.isArray(result)) return `expected {"${key}": [[...], ...]}`;
  if (result.length !== queryCount) return `expected one list for each of ${queryCount} queries, got ${result.length}`;
  const lists: Passage[][] = [];
  for (const [q, hits] of result.entries()) {
    if (!Array.isArray(hits)) return `expected ${key}[${q}] to be a list`;
    const passages: Passage[] = [];
    for (const [i, hit] of hits.entries()) {
      const passage = parsePassage(hit);
      if (passage === null) return `expected ${key}[${q}][${i}] to hold "contents", or "title" and "text"`;
      passages.push(passage);
    }
    lists.push(passages);
  }
  return lists;
}

/** Parses one hit in any of the shapes; null if it has no text. */
export function parsePassage(hit: unknown): Passage | null {
  if (!isObject(hit)) return typeof hit === 'string' ? { contents: hit } : null;
  const document = hit['document'] ?? hit;
  if (typeof document === 'string') return withScore({ contents: document }, hit);
  if (!isObject(document)) return null;
  const contents = contentsOf(document);
  if (contents === null) return null;
  const { id } = document;
  return withScore(typeof id === 'string' || typeof id === 'number' ? { id: String(id), contents } : { contents }, hit);
}

/** Joins title and text as in the corpora: the quoted title on the first line, the text below. A blank title, as in BEIR, counts as missing. */
function contentsOf({ contents, title, text }: Readonly<Record<string, unknown>>): string | null {
  if (typeof contents === 'string') return contents;
  if (typeof text !== 'string') return null;
  if (typeof title !== 'string' || title.trim() === '') return text;
  const line = onOneLine(title);
  return /^".+"$/.test(line) ? `${line}\n${text}` : `"${line}"\n${text}`;
}

function withScore(passage: Passage, { score }: Readonly<Record<string, unknown>>): Passage {
  return typeof score === 'number' ? { ...passage, score } : passage;
}
