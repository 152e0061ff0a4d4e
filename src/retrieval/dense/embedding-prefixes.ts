/**
 * The prefixes with which embedding models were trained, from each model's card on the Hugging Face hub. Wrong prefixes cause no error, but fewer passages are
 * found.
 */
import type { Prefixes } from './embedder.ts';

const NONE: Prefixes = { query: '', passage: '' };
const SEARCH_SENTENCE = { query: 'Represent this sentence for searching relevant passages: ', passage: '' };
const WEB_TASK = 'Given a web search query, retrieve relevant passages that answer the query';

/** The first pattern that matches the last part of a model's name, in lower case, decides. */
const FAMILIES: readonly (readonly [RegExp, Prefixes])[] = [
  // A space follows "Query:" on the cards of E5, none on that of Qwen3-Embedding.
  [/^(?:multilingual-)?e5-.*-?instruct/, { query: `Instruct: ${WEB_TASK}\nQuery: `, passage: '' }],
  [/^(?:multilingual-)?e5-/, { query: 'query: ', passage: 'passage: ' }],
  [/^qwen3-embedding/, { query: `Instruct: ${WEB_TASK}\nQuery:`, passage: '' }],
  [/^gte-qwen/, { query: `Instruct: ${WEB_TASK}\nQuery: `, passage: '' }],
  [/^bge-m3/, NONE],
  [/^bge-(?:small|base|large)-en/, SEARCH_SENTENCE],
  [/^bge-(?:small|base|large)-zh/, { query: '为这个句子生成表示以用于检索相关文章：', passage: '' }],
  [/^mxbai-embed-/, SEARCH_SENTENCE],
  [/^snowflake-arctic-embed-[ml]-v2/, { query: 'query: ', passage: '' }],
  [/^snowflake-arctic-embed/, SEARCH_SENTENCE],
  [/^nomic-embed-text/, { query: 'search_query: ', passage: 'search_document: ' }],
  [/^embeddinggemma/, { query: 'task: search result | query: ', passage: 'title: none | text: ' }],
  [/^(?:all|multi-qa|paraphrase|msmarco)-(?:\w+-)*(?:minilm|mpnet|distilbert|distilroberta)/, NONE],
  [/^(?:gte|jina-embeddings-v2|text-embedding-(?:3|ada))-/, NONE],
];

/** The prefixes of a model by its name or the path of its folder; null if its family is unknown here. */
export function knownPrefixes(model: string): Prefixes | null {
  const name = model
    .replace(/[/\\]+$/, '')
    .split(/[/\\]/)
    .at(-1)!
    .toLowerCase();
  return FAMILIES.find(([pattern]) => pattern.test(name))?.[1] ?? null;
}
