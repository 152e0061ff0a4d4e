/** The passages and vectors of a dense index, in a LanceDB table: appended in batches that are on disk completely or not at all, searched exactly or by IVF-PQ. */
import { RetrievalError, thrownText } from '../../core/errors.ts';
import type { DenseSearch } from './dense-manifest.ts';
import {
  type Arrow,
  type LanceConnection,
  type LanceHit,
  type LanceLibrary,
  type LanceQuery,
  type LanceTable,
  loadLanceLibrary,
} from './lance-library.ts';

const TABLE = 'passages';
const COLUMNS = ['row', 'id', 'contents', '_distance'];

export interface EmbeddedPassage {
  readonly id: string;
  readonly contents: string;
  readonly vector: Float32Array;
}

export interface DenseHit {
  readonly row: number;
  readonly id: string;
  readonly contents: string;
  /** The inner product of vectors of length 1. */
  readonly score: number;
}

export class DenseTable {
  readonly #library: LanceLibrary;
  readonly #connection: LanceConnection;
  #table: LanceTable | null;

  private constructor(library: LanceLibrary, connection: LanceConnection, table: LanceTable | null) {
    this.#library = library;
    this.#connection = connection;
    this.#table = table;
  }

  /** `folder`: an absolute path. Throws ConfigError without LanceDB, RetrievalError for a table that cannot be read. */
  static async open(folder: string): Promise<DenseTable> {
    const library = await loadLanceLibrary();
    try {
      const connection = await library.lance.connect(folder);
      const names = await connection.tableNames();
      return new DenseTable(library, connection, names.includes(TABLE) ? await connection.openTable(TABLE) : null);
    } catch (cause) {
      throw new RetrievalError(`The vectors in ${folder} cannot be read: ${firstLine(cause)}`, { cause });
    }
  }

  async rows(): Promise<number> {
    return this.#table === null ? 0 : this.#table.countRows();
  }

  /** Appends the passages; `start` is the row of the first. Throws RetrievalError. */
  async append(passages: readonly EmbeddedPassage[], start: number): Promise<void> {
    const data = arrowTable(this.#library.arrow, passages, start);
    try {
      if (this.#table === null) this.#table = await this.#connection.createTable(TABLE, data);
      else await this.#table.add(data);
    } catch (cause) {
      throw new RetrievalError(`The vectors could not be written: ${firstLine(cause)}`, { cause });
    }
  }

  /** Joins the files of the batches, removes files that are no longer needed, and trains the index of IVF-PQ. Throws RetrievalError. */
  async finish(search: DenseSearch): Promise<void> {
    const table = this.#opened();
    try {
      await table.optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
      if (search.kind === 'exact') return;
      const config = this.#library.lance.Index.ivfPq({
        distanceType: 'dot',
        numPartitions: search.partitions,
        numSubVectors: search.sub_vectors,
      });
      await table.createIndex('vector', { config, replace: true });
    } catch (cause) {
      throw new RetrievalError(`The vectors could not be indexed: ${firstLine(cause)}`, { cause });
    }
  }

  /** The best passages for each vector, best first; equal scores keep the order of the corpus. Throws RetrievalError. */
  async search(vectors: readonly Float32Array[], topk: number, search: DenseSearch): Promise<DenseHit[][]> {
    const [first, ...others] = vectors;
    if (first === undefined) return [];
    let query: LanceQuery = this.#opened().vectorSearch(first).distanceType('dot');
    for (const vector of others) query = query.addQueryVector(vector);
    query = search.kind === 'exact' ? query.bypassVectorIndex() : query.nprobes(search.nprobes).refineFactor(search.refine);
    const hits = await this.#read<LanceHit>(query.select(COLUMNS).limit(topk));
    const lists: DenseHit[][] = vectors.map(() => []);
    for (const { query_index: q = 0, row, id, contents, _distance } of hits) lists[q]!.push({ row, id, contents, score: 1 - _distance });
    return lists.map((list) => list.toSorted((a, b) => b.score - a.score || a.row - b.row));
  }

  /** A passage with its vector; null beyond the last. Throws RetrievalError. */
  async passage(row: number): Promise<EmbeddedPassage | null> {
    const query = this.#opened().query().where(`row = ${row}`).select(['id', 'contents', 'vector']).limit(1);
    const [found] = await this.#read<{ id: string; contents: string; vector: Iterable<number> }>(query);
    return found === undefined ? null : { id: found.id, contents: found.contents, vector: Float32Array.from(found.vector) };
  }

  close(): void {
    this.#table?.close();
    this.#connection.close();
  }

  async #read<T>(query: LanceQuery): Promise<readonly T[]> {
    try {
      return (await query.toArray()) as readonly T[];
    } catch (cause) {
      throw new RetrievalError(`The vectors could not be searched: ${firstLine(cause)}`, { cause });
    }
  }

  #opened(): LanceTable {
    if (this.#table === null) throw new RetrievalError('The index holds no vectors. Build it again with vf-index --dense.');
    return this.#table;
  }
}

/** LanceDB's messages end with places in its sources. */
function firstLine(cause: unknown): string {
  return thrownText(cause).split('\n', 1)[0]!.slice(0, 300);
}

/** Columns without a conversion of every number, which would take longer than the embedding on a GPU. */
function arrowTable(arrow: Arrow, passages: readonly EmbeddedPassage[], start: number): unknown {
  const length = passages.length;
  const dim = passages[0]!.vector.length;
  const values = new Float32Array(length * dim);
  for (const [i, { vector }] of passages.entries()) values.set(vector, i * dim);
  const item = new arrow.Field('item', new arrow.Float32(), true);
  const list = new arrow.FixedSizeList(dim, item);
  const fields = [
    new arrow.Field('row', new arrow.Int32(), false),
    new arrow.Field('id', new arrow.Utf8(), false),
    new arrow.Field('contents', new arrow.Utf8(), false),
    new arrow.Field('vector', list, false),
  ];
  const schema = new arrow.Schema(fields);
  const text = (read: (passage: EmbeddedPassage) => string) => arrow.vectorFromArray(passages.map(read), new arrow.Utf8()).data[0];
  const children = [
    arrow.makeData({ type: new arrow.Int32(), length, data: Int32Array.from({ length }, (_, i) => start + i) }),
    text(({ id }) => id),
    text(({ contents }) => contents),
    arrow.makeData({ type: list, length, nullCount: 0, child: arrow.makeData({ type: new arrow.Float32(), length: length * dim, data: values }) }),
  ];
  const struct = arrow.makeData({ type: new arrow.Struct(schema.fields), length, nullCount: 0, children });
  return new arrow.Table(schema, new arrow.RecordBatch(schema, struct));
}
