import type { Embedder } from './embedder.ts';
import type { PassageBatch } from './passage-reader.ts';

export interface EmbeddedBatch extends PassageBatch {
  readonly vectors: readonly Float32Array[];
}

/** Embeds batches, as many at a time as the embedder takes, and gives them in their order. */
export async function* embeddedInOrder(
  batches: AsyncIterable<PassageBatch>,
  { embedder, prefix, signal }: { readonly embedder: Embedder; readonly prefix: string; readonly signal: AbortSignal },
): AsyncGenerator<EmbeddedBatch, void> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const embed = async (batch: PassageBatch): Promise<EmbeddedBatch> => {
    const texts = batch.passages.map(({ contents }) => prefix + contents);
    return { ...batch, vectors: await embedder.embed(texts, either) };
  };
  const running: Promise<EmbeddedBatch>[] = [];
  try {
    for await (const batch of batches) {
      const embedding = embed(batch);
      // Its failure is thrown when it is its turn.
      embedding.catch(() => {});
      running.push(embedding);
      if (running.length >= embedder.concurrency) yield await running.shift()!;
    }
    while (running.length > 0) yield await running.shift()!;
  } finally {
    stop.abort();
    await Promise.allSettled(running);
  }
}
