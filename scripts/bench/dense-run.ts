/** A run of LanceDB for dense.ts: `dense-run.ts FOLDER` reads passages.f32, queries.f32 and settings.json there, and prints a DenseRun. */
import { join } from 'node:path';
import type { DenseSearch } from '../../src/retrieval/dense/dense-manifest.ts';
import { DenseTable } from '../../src/retrieval/dense/dense-table.ts';
import { median } from './measurement.ts';
import { readRegularBytesSync, readRegularFileSync } from '../../src/files/regular-file.ts';

interface Searched {
  /** The ten best rows of each query. */
  readonly ids: readonly (readonly number[])[];
  readonly p50Ms: number;
}

export interface DenseRun {
  readonly exact: Searched;
  readonly ivfPq: Searched;
  readonly buildS: number;
  /** Resident memory of the process. */
  readonly peakMb: number;
}

const [folder] = process.argv.slice(2);
const settings = JSON.parse(readRegularFileSync(join(folder!, 'settings.json'))) as { rows: number; dim: number } & Extract<
  DenseSearch,
  { kind: 'ivf_pq' }
>;
const vectors = (name: string): Float32Array[] => {
  const bytes = readRegularBytesSync(join(folder!, name));
  const { dim } = settings;
  const all = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  return Array.from({ length: all.length / dim }, (_, i) => all.subarray(i * dim, (i + 1) * dim));
};

const table = await DenseTable.open(join(folder!, 'lance'));
await table.append(
  vectors('passages.f32').map((vector, i) => ({ id: String(i), contents: '', vector })),
  0,
);
await table.finish({ kind: 'exact' });
const queries = vectors('queries.f32');
const exact = await searched({ kind: 'exact' });
const startedAt = performance.now();
await table.finish(settings);
const buildS = (performance.now() - startedAt) / 1000;
const ivfPq = await searched(settings);
table.close();
const run: DenseRun = { exact, ivfPq, buildS, peakMb: process.resourceUsage().maxRSS / 1024 };
process.stdout.write(JSON.stringify(run));

async function searched(search: DenseSearch): Promise<Searched> {
  const times: number[] = [];
  const ids: number[][] = [];
  // The first search opens files.
  await table.search([queries[0]!], 10, search);
  for (const query of queries) {
    const at = performance.now();
    const [hits] = await table.search([query], 10, search);
    times.push(performance.now() - at);
    ids.push(hits!.map(({ row }) => row));
  }
  return { ids, p50Ms: median(times) };
}
