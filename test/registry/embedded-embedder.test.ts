import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError } from '../../src/core/errors.ts';
import { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { openDense } from '../../src/registry/open-dense.ts';
import { EmbeddedEmbedder } from '../../src/registry/embedded-embedder.ts';
import { buildDenseIndex } from '../../src/retrieval/dense/build-dense-index.ts';
import { isLanceInstalled } from '../retrieval/dense/lance-installed.ts';
import { EMBEDDINGS_GOLDEN, writeEmbeddingModel } from './random-embedding-model.ts';

const signal = new AbortController().signal;
const { texts, ids, vectors, max_tokens: maxTokens } = EMBEDDINGS_GOLDEN;
let folder: string;
let model: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'embedded-embedder-'));
  model = join(folder, 'Qwen3-Embedding-random');
  await writeEmbeddingModel(model);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const off = (found: readonly Float32Array[], expected: readonly (readonly number[])[]) =>
  Math.max(...found.flatMap((vector, i) => [...vector].map((value, j) => Math.abs(value - expected[i]![j]!))));

describe('EmbeddedEmbedder', () => {
  it.each([1, 2])(
    'makes the vectors of transformers with random weights, of texts shorter and longer than a pass, on %i threads',
    async (threads) => {
      const embedder = await EmbeddedEmbedder.open({ model, threads, maxTokens, signal });
      const found = await embedder.embed(texts, signal);
      expect(found.map(({ length }) => length)).toEqual(vectors.map(({ length }) => length));
      expect(off(found, vectors)).toBeLessThan(2e-5);
      // A vector does not depend on the other texts.
      for (const [i, text] of texts.entries()) expect(off(await embedder.embed([text], signal), [[...found[i]!]])).toBeLessThan(1e-6);
      await embedder.close();
    },
  );

  it('reads a model whose tensors are named as those of a causal model', async () => {
    const causal = join(folder, 'causal');
    await writeEmbeddingModel(causal, { hasPrefix: true });
    const embedder = await EmbeddedEmbedder.open({ model: causal, threads: 1, maxTokens, signal });
    expect(off(await embedder.embed(texts.slice(0, 2), signal), vectors)).toBeLessThan(2e-5);
    await embedder.close();
  });

  it('says in one line why a directory cannot embed', async () => {
    const open = (directory: string) => EmbeddedEmbedder.open({ model: directory, signal });
    await expect(open(join(folder, 'nowhere'))).rejects.toThrow(ConfigError);
    const other = join(folder, 'other');
    await writeEmbeddingModel(other);
    writeFileSync(join(other, 'config.json'), '{"model_type": "bert"}');
    await expect(open(other)).rejects.toThrow(/^The model .*other cannot embed here: .*bert/);
  });

  it('stops when it is asked to', async () => {
    const embedder = await EmbeddedEmbedder.open({ model, threads: 1, maxTokens, signal });
    const stop = new AbortController();
    const embedding = embedder.embed(Array<string>(40).fill(texts[6]!), stop.signal);
    stop.abort();
    await expect(embedding).rejects.toThrow(CancelledError);
    await embedder.close();
  });

  it.runIf(isLanceInstalled())('makes an index that opens without a server', async () => {
    const corpus = join(folder, 'corpus.jsonl');
    writeFileSync(corpus, texts.map((contents, i) => `${JSON.stringify({ id: String(i), contents })}\n`).join(''));
    const embedder = await EmbeddedEmbedder.open({ model, threads: 1, signal });
    const target = join(folder, 'made');
    const manifest = await buildDenseIndex({ corpus, target, embedder, prefixes: { query: '', passage: '' }, embeddingsUrl: null, signal });
    await embedder.close();
    expect(manifest).toMatchObject({ rows: texts.length, dim: vectors[0]!.length, embeddings_url: null });
    const retriever = await openDense({ engine: 'hybrid', folder: target, env: {} });
    const [list] = await retriever.search([texts[7]!], { topk: 1, signal });
    expect(list).toMatchObject([{ id: '7', contents: texts[7] }]);
    await retriever.close();
  });
});

describe('EmbeddedEngine opened for vectors', () => {
  it('takes the ids that the tokenizer of transformers makes, with the end of the text', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: model, threads: 1, embeds: true, signal });
    const encoded = texts.map((text) => [...engine.tokenizer.encode(text, { addSpecialTokens: true })]);
    expect(encoded.filter((_, i) => i !== 6)).toEqual(ids.filter((_, i) => i !== 6));
    expect(
      off(
        await engine.embed(
          ids.map((one) => Int32Array.from(one)),
          signal,
        ),
        vectors,
      ),
    ).toBeLessThan(2e-5);
    await expect(engine.embed([new Int32Array(0)], signal)).rejects.toThrow(/1 to \d+ tokens, got 0/);
    await expect(engine.embed([Int32Array.of(5000)], signal)).rejects.toThrow(/below 1597, got 5000/);
    await expect(engine.embed([new Int32Array(engine.maxModelLen + 1)], signal)).rejects.toThrow(/Cut it/);
    await engine.close();
    await expect(engine.embed([Int32Array.of(1)], signal)).rejects.toThrow(CancelledError);
  });

  it('does not sample, and one that samples does not embed', async () => {
    const engine = await EmbeddedEngine.open({ modelPath: model, threads: 1, signal });
    await expect(engine.embed([Int32Array.of(1)], signal)).rejects.toThrow(/not opened for vectors/);
    await engine.close();
  });
});
