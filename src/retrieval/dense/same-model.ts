import { ConfigError } from '../../core/errors.ts';
import type { DenseTable } from './dense-table.ts';
import type { Embedder } from './embedder.ts';

/** Vectors of one model, computed in float16 or in another batch, are closer than this; those of two models, or with other prefixes, are not. */
const SAME = 0.98;

export interface SameModelOptions {
  readonly table: DenseTable;
  readonly embedder: Embedder;
  /** The text before every passage. */
  readonly prefix: string;
  /** Path of the index, for messages. */
  readonly index: string;
  readonly signal: AbortSignal;
}

/** Embeds the first passage again. Throws ConfigError if its vector differs from the one in the index: the name of a model says little about its weights. */
export async function assertSameModel({ table, embedder, prefix, index, signal }: SameModelOptions): Promise<void> {
  const first = await table.passage(0);
  if (first === null) return;
  const [vector] = await embedder.embed([prefix + first.contents], signal);
  const remedy = 'Serve the model that made the index, or build the index again with --force';
  if (vector!.length !== first.vector.length)
    throw new ConfigError(
      `${embedder.name} makes vectors of ${vector!.length} numbers, and ${index} holds vectors of ${first.vector.length}. ${remedy}.`,
    );
  const product = vector!.reduce((sum, value, i) => sum + value * first.vector[i]!, 0);
  if (product >= SAME) return;
  throw new ConfigError(
    `${embedder.name} is not the model of ${index}: its vector of the first passage has a cosine of ${product.toFixed(3)} with the vector in the index. ${remedy}.`,
  );
}
