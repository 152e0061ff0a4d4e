/** `manifest.json` of an index folder: the corpus it was built from, and the sizes and checksums of its files. */
import { crc32 } from 'node:zlib';
import type { XStatic } from 'typebox/schema';
import { fieldsOf } from '../../schemas/is-object.ts';
import { byName, count, listOf, number, object, only, text } from '../../schemas/json-schema.ts';
import { schemaCheck } from '../../schemas/schema-check.ts';
import { ANALYZER } from './english-analyzer.ts';

export const INDEX_FORMAT = 'vf-search-bm25';
/** 2: passages and the manifest have checksums. Version 1 had none, so that a damaged passage was returned as if it were whole. */
export const INDEX_VERSION = 2;

const manifestSchema = object({
  format: only(INDEX_FORMAT),
  version: only(INDEX_VERSION),
  analyzer: text,
  corpus: object({ name: text, sha256: text, bytes: count }),
  rows: count,
  rows_with_terms: count,
  tokens: count,
  terms: count,
  /** Default parameters of searches. */
  k1: number,
  b: number,
  shards: listOf(object({ rows: count, terms: count, postings: count, frequencies: count })),
  /** Every file except the passages, which are checked one by one when they are read. */
  files: byName(object({ bytes: count, crc32: count })),
  /** Of all of the above, as JSON without spaces. */
  crc32: count,
});
export type IndexManifest = XStatic<typeof manifestSchema>;

/** Adds the checksum. */
export function sealManifest(content: Omit<IndexManifest, 'crc32'>): IndexManifest {
  return { ...content, crc32: crc32(JSON.stringify(content)) };
}

/** Returns the manifest, or its fault. */
export function parseManifest(json: string): IndexManifest | string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return 'its manifest.json is not JSON';
  }
  const { format, version, analyzer } = fieldsOf(value);
  if (format !== INDEX_FORMAT) return 'its manifest.json was not written by vf-index';
  if (version !== INDEX_VERSION) return `it has format version ${String(version)}, this package reads ${INDEX_VERSION}`;
  if (analyzer !== ANALYZER) return `it was built with the analyzer ${String(analyzer)}, this package has ${ANALYZER}`;
  if (!schemaCheck(manifestSchema)(value)) return 'its manifest.json has missing or wrong fields';
  const { crc32: expected, ...content } = value;
  return crc32(JSON.stringify(content)) === expected ? value : 'its manifest.json is damaged: its checksum differs';
}
