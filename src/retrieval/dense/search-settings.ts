/** Chooses the search of an index by the number of its vectors: the exact search reads them all, IVF-PQ a part of them. */
import { ConfigError } from '../../core/errors.ts';
import type { DenseSearch } from './dense-manifest.ts';

export type SearchKind = DenseSearch['kind'];

/** Up to here an exact search of 768 numbers takes about a tenth of a second of one core. */
const MOST_EXACT_ROWS = 65_536;
/** A codebook of 8 bits has this many entries, and cannot be trained on fewer vectors. */
const FEWEST_ROWS = 256;
const FEWEST_PROBES = 20;
/** Without refinement, recall is that of the codes alone: below one half at 96 bytes for 768 numbers. */
const REFINE = 20;

/** Throws ConfigError if IVF-PQ is asked for too few vectors. */
export function searchOf(rows: number, dim: number, kind: SearchKind = rows > MOST_EXACT_ROWS ? 'ivf_pq' : 'exact'): DenseSearch {
  if (kind === 'exact') return { kind };
  if (rows < FEWEST_ROWS) throw new ConfigError(`IVF-PQ needs at least ${FEWEST_ROWS} passages, and the corpus has ${rows}. Leave --ivf-pq out.`);
  const partitions = Math.max(1, Math.round(Math.sqrt(rows)));
  const width = [8, 4, 2].find((numbers) => dim % numbers === 0) ?? 1;
  return {
    kind,
    partitions,
    sub_vectors: dim / width,
    nprobes: Math.min(partitions, Math.max(FEWEST_PROBES, Math.ceil(partitions / 16))),
    refine: REFINE,
  };
}
