/** `manifest.json` of an index folder: the corpus it was built from, and the sizes and checksums of its files. */
import { crc32 } from 'node:zlib';
import { ANALYZER } from './english-analyzer.ts';

export const INDEX_FORMAT = 'vf-search-bm25';
/** 2: passages and the manifest have checksums. Version 1 had none, so that a damaged passage was returned as if it were whole. */
export const INDEX_VERSION = 2;

export interface IndexManifest {
  readonly format: typeof INDEX_FORMAT;
  readonly version: typeof INDEX_VERSION;
  readonly analyzer: string;
  readonly corpus: { readonly name: string; readonly sha256: string; readonly bytes: number };
  readonly rows: number;
  readonly rows_with_terms: number;
  readonly tokens: number;
  readonly terms: number;
  /** Default parameters of searches. */
  readonly k1: number;
  readonly b: number;
  readonly shards: readonly { readonly rows: number; readonly terms: number; readonly postings: number; readonly frequencies: number }[];
  /** Every file except the passages, which are checked one by one when they are read. */
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly crc32: number }>>;
  /** Of all of the above, as JSON without spaces. */
  readonly crc32: number;
}

/** Adds the checksum. */
export function sealManifest(content: Omit<IndexManifest, 'crc32'>): IndexManifest {
  return { ...content, crc32: crc32(JSON.stringify(content)) };
}

/** Returns the manifest, or its fault. */
export function parseManifest(text: string): IndexManifest | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'its manifest.json is not JSON';
  }
  const { format, version, analyzer } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (format !== INDEX_FORMAT) return 'its manifest.json was not written by vf-index';
  if (version !== INDEX_VERSION) return `it has format version ${String(version)}, this package reads ${INDEX_VERSION}`;
  if (analyzer !== ANALYZER) return `it was built with the analyzer ${String(analyzer)}, this package has ${ANALYZER}`;
  const manifest = value as IndexManifest;
  const counts = [manifest.rows, manifest.rows_with_terms, manifest.tokens, manifest.terms, manifest.corpus?.bytes];
  const shards = Array.isArray(manifest.shards) ? manifest.shards.flatMap((s) => [s?.rows, s?.terms, s?.postings, s?.frequencies]) : [-1];
  const isWhole = [...counts, ...shards].every((n) => Number.isSafeInteger(n) && n >= 0);
  const isKnown = typeof manifest.corpus?.name === 'string' && typeof manifest.corpus.sha256 === 'string';
  const areNumbers = Number.isFinite(manifest.k1) && Number.isFinite(manifest.b);
  const hasFiles = typeof manifest.files === 'object' && manifest.files !== null;
  if (!isWhole || !isKnown || !areNumbers || !hasFiles) return 'its manifest.json has missing or wrong fields';
  const { crc32: expected, ...content } = manifest;
  return crc32(JSON.stringify(content)) === expected ? manifest : 'its manifest.json is damaged: its checksum differs';
}
