import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';

const path = new URL('../datasets/nq-mini/corpus.jsonl.br', import.meta.url);

/** The passages of nq-mini as JSON Lines. */
export function nqMiniCorpus(): string {
  return brotliDecompressSync(readFileSync(path)).toString('utf8');
}
