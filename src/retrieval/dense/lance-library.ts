/**
 * LanceDB, which a user installs separately, because most users do not need its 185 MB. The types are the part of its interface that is used here, so that the
 * package is checked without it; `scripts/lancedb/install.sh` installs it for tests.
 */
import { createRequire } from 'node:module';
import { ConfigError } from '../../core/errors.ts';

/** The version in package.json. */
const INSTALL = 'npm install @lancedb/lancedb@0.39.0';
const PACKAGE = '@lancedb/lancedb';

export interface LanceHit {
  /** Of the query, for several at once. */
  readonly query_index?: number;
  readonly row: number;
  readonly id: string;
  readonly contents: string;
  /** 1 - the inner product. */
  readonly _distance: number;
}

export interface LanceQuery {
  addQueryVector(vector: Float32Array): LanceQuery;
  distanceType(type: 'dot'): LanceQuery;
  nprobes(count: number): LanceQuery;
  refineFactor(factor: number): LanceQuery;
  bypassVectorIndex(): LanceQuery;
  select(columns: readonly string[]): LanceQuery;
  where(predicate: string): LanceQuery;
  limit(count: number): LanceQuery;
  toArray(): Promise<unknown[]>;
}

export interface LanceTable {
  add(table: unknown): Promise<unknown>;
  countRows(): Promise<number>;
  createIndex(column: string, options: { readonly config: unknown; readonly replace?: boolean }): Promise<void>;
  listIndices(): Promise<readonly { readonly indexType: string }[]>;
  optimize(options: { readonly cleanupOlderThan: Date; readonly deleteUnverified: boolean }): Promise<unknown>;
  query(): LanceQuery;
  vectorSearch(vector: Float32Array): LanceQuery;
  close(): void;
}

export interface LanceConnection {
  tableNames(): Promise<readonly string[]>;
  openTable(name: string): Promise<LanceTable>;
  createTable(name: string, data: unknown): Promise<LanceTable>;
  close(): void;
}

interface LanceModule {
  connect(uri: string): Promise<LanceConnection>;
  readonly Index: { ivfPq(options: { readonly distanceType: 'dot'; readonly numPartitions: number; readonly numSubVectors: number }): unknown };
}

/** The part of apache-arrow, a peer of LanceDB, that builds a table of columns. */
export interface Arrow {
  readonly Float32: new () => unknown;
  readonly Int32: new () => unknown;
  readonly Utf8: new () => unknown;
  readonly Field: new (name: string, type: unknown, nullable: boolean) => unknown;
  readonly FixedSizeList: new (length: number, field: unknown) => unknown;
  readonly Struct: new (fields: readonly unknown[]) => unknown;
  readonly Schema: new (fields: readonly unknown[]) => { readonly fields: readonly unknown[] };
  readonly RecordBatch: new (schema: unknown, data: unknown) => unknown;
  readonly Table: new (schema: unknown, batch: unknown) => unknown;
  makeData(properties: object): unknown;
  vectorFromArray(values: readonly string[], type: unknown): { readonly data: readonly unknown[] };
}

export interface LanceLibrary {
  readonly lance: LanceModule;
  readonly arrow: Arrow;
}

/** Throws ConfigError with the command that installs it. */
export async function loadLanceLibrary(): Promise<LanceLibrary> {
  try {
    const lance = (await import(PACKAGE)) as LanceModule;
    return { lance, arrow: createRequire(import.meta.resolve(PACKAGE))('apache-arrow') as Arrow };
  } catch (cause) {
    const isMissing = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes((cause as NodeJS.ErrnoException).code ?? '');
    const what = isMissing ? `needs the package ${PACKAGE}, which is not installed` : `could not load the package ${PACKAGE}`;
    throw new ConfigError(`Dense retrieval ${what}. Install it: ${INSTALL}`, { cause });
  }
}
