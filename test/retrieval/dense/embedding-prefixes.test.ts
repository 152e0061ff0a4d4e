import { describe, expect, it } from 'vitest';
import { knownPrefixes } from '../../../src/retrieval/dense/embedding-prefixes.ts';

const WEB = 'Instruct: Given a web search query, retrieve relevant passages that answer the query\n';
const SENTENCE = 'Represent this sentence for searching relevant passages: ';

describe('knownPrefixes', () => {
  it.each([
    ['intfloat/e5-base-v2', 'query: ', 'passage: '],
    ['intfloat/multilingual-e5-large', 'query: ', 'passage: '],
    ['intfloat/multilingual-e5-large-instruct', `${WEB}Query: `, ''],
    ['intfloat/e5-mistral-7b-instruct', `${WEB}Query: `, ''],
    ['Qwen/Qwen3-Embedding-0.6B', `${WEB}Query:`, ''],
    ['/models/Qwen3-Embedding-4B/', `${WEB}Query:`, ''],
    ['BAAI/bge-base-en-v1.5', SENTENCE, ''],
    ['BAAI/bge-small-zh-v1.5', '为这个句子生成表示以用于检索相关文章：', ''],
    ['BAAI/bge-m3', '', ''],
    ['mixedbread-ai/mxbai-embed-large-v1', SENTENCE, ''],
    ['nomic-ai/nomic-embed-text-v1.5', 'search_query: ', 'search_document: '],
    ['sentence-transformers/all-MiniLM-L6-v2', '', ''],
    ['sentence-transformers/multi-qa-mpnet-base-dot-v1', '', ''],
    ['text-embedding-3-small', '', ''],
  ])('knows those of %s', (model, query, passage) => {
    expect(knownPrefixes(model)).toEqual({ query, passage });
  });

  it.each(['my-model', 'not-e5-base', 'intfloat/', ''])('knows none of "%s"', (model) => {
    expect(knownPrefixes(model)).toBeNull();
  });
});
