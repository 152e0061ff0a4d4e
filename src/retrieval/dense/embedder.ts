/** A model that makes one vector of each text. Prefixes are the caller's: an embedder takes texts as they are. */
export interface Embedder {
  /** For results: model and server, without credentials. */
  readonly name: string;
  /** The model's name, as an index records it. */
  readonly model: string;
  /** Texts that one call should hold at most for the best throughput. */
  readonly batchSize: number;
  /** Calls that should run at a time. */
  readonly concurrency: number;
  /** A vector of length 1 for each text, all of one dimension. Throws RetrievalError or CancelledError. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
  close(): Promise<void>;
}

/** The texts before a query and before a passage when a model embeds it. */
export interface Prefixes {
  readonly query: string;
  readonly passage: string;
}

/** Scales the vector to length 1 in place. Returns its fault, or null. */
export function normalize(vector: Float32Array): string | null {
  let sum = 0;
  for (const value of vector) sum += value * value;
  if (!Number.isFinite(sum)) return 'holds a number that is not finite';
  if (sum === 0) return 'is all zeros';
  const scale = 1 / Math.sqrt(sum);
  for (let i = 0; i < vector.length; i++) vector[i]! *= scale;
  return null;
}
