/** `manifest.json` of a dense index: the model, the way its vectors were made, the corpus, and the way the vectors are searched. */
import { crc32 } from 'node:zlib';
import type { XStatic } from 'typebox/schema';
import { fieldsOf } from '../../schemas/is-object.ts';
import { anyOf, atLeastOne, byName, count, flag, object, only, text, textOrNull } from '../../schemas/json-schema.ts';
import { schemaCheck } from '../../schemas/schema-check.ts';

export const DENSE_FORMAT = 'vf-search-dense';
export const DENSE_VERSION = 1;

/** Numbers that a stranger's manifest may set: LanceDB takes any, and larger ones take more memory. */
const upTo = (maximum: number) => ({ ...atLeastOne, maximum }) as const;

/**
 * The exact search compares every vector. The other compares those of the nearest `nprobes` of `partitions`: by product quantisation, then by exact product for
 * `refine` times as many as were asked for.
 */
const searchSchema = anyOf(
  object({ kind: only('exact') }),
  object({ kind: only('ivf_pq'), partitions: upTo(2 ** 20), sub_vectors: upTo(2 ** 16), nprobes: upTo(2 ** 20), refine: upTo(1000) }),
);
export type DenseSearch = XStatic<typeof searchSchema>;

const manifestSchema = object(
  {
    format: only(DENSE_FORMAT),
    version: only(DENSE_VERSION),
    model: text,
    dim: atLeastOne,
    /** Vectors have length 1, so that their inner product is their cosine. */
    metric: only('cosine'),
    query_prefix: text,
    passage_prefix: text,
    /** The server that made the vectors, without credentials; null for the embedded engine. */
    embeddings_url: textOrNull,
    corpus: object({ name: text, sha256: text, bytes: count }),
    rows: atLeastOne,
    search: searchSchema,
    /** True if the folder `bm25` holds a BM25 index of the same corpus. */
    bm25: flag,
  },
  {
    /** Of every file below `vectors`. Older indexes have none, nor the checksum of the manifest. */
    files: byName(object({ bytes: count, crc32: count })),
    /** Of all of the above, as JSON without spaces. */
    crc32: count,
  },
);
export type DenseManifest = XStatic<typeof manifestSchema>;

/** Adds the checksum. */
export function sealDenseManifest(content: Omit<DenseManifest, 'crc32'>): DenseManifest {
  return { ...content, crc32: crc32(JSON.stringify(content)) };
}

/** Returns the manifest, or its fault. */
export function parseDenseManifest(json: string): DenseManifest | string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return 'its manifest.json is not JSON';
  }
  const { format, version } = fieldsOf(value);
  if (format === 'vf-search-bm25') return 'it is a BM25 index, without vectors';
  if (format !== DENSE_FORMAT) return 'its manifest.json was not written by vf-index --dense';
  if (version !== DENSE_VERSION) return `it has format version ${String(version)}, this package reads ${DENSE_VERSION}`;
  if (!schemaCheck(manifestSchema)(value)) return 'its manifest.json has missing or wrong fields';
  const { crc32: expected, ...content } = value;
  if (content.files === undefined && expected === undefined) return value;
  return crc32(JSON.stringify(content)) === expected ? value : 'its manifest.json is damaged: its checksum differs';
}
