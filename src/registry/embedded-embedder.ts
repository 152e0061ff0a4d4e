/** A Qwen3-Embedding directory as the embedder: the embedded engine computes the vectors in this process, without a server. */
import { ConfigError, RetrievalError, thrownText } from '../core/errors.ts';
import { EmbeddedEngine } from '../engine/embedded-engine.ts';
import { EngineInputError, MemoryLimitError } from '../engine/engine-errors.ts';
import type { TokenEngine } from '../engine/engine-types.ts';
import { readModelConfig } from '../engine/model/read-model-config.ts';
import { Folder } from '../files/folder.ts';
import type { Embedder } from '../retrieval/dense/embedder.ts';

export interface EmbeddedEmbedderOptions {
  /** Directory of the model. */
  readonly model: string;
  /** Compute threads. @default the machine's cores, at most 8 */
  readonly threads?: number;
  /** Longer texts are cut, before the token that ends them. @default 1024, or the model's own limit if that is less */
  readonly maxTokens?: number;
  readonly signal: AbortSignal;
}

/** Texts in a call. The number is small, because a thread finishes its call before it notices a stop. */
const BATCH = 8;
const LONGEST = 1024;

export class EmbeddedEmbedder implements Embedder {
  readonly name: string;
  readonly model: string;
  readonly batchSize = BATCH;
  readonly concurrency: number;
  readonly #engine: TokenEngine;

  private constructor(model: string, engine: TokenEngine) {
    this.name = `${model} (${engine.description})`;
    this.model = model;
    this.concurrency = engine.stats().threads + 1;
    this.#engine = engine;
  }

  /** Throws ConfigError if the directory holds no model that the engine can compute. */
  static async open({ model, maxTokens = LONGEST, ...options }: EmbeddedEmbedderOptions): Promise<EmbeddedEmbedder> {
    try {
      const { maxPositions } = await readModelConfig(new Folder(model));
      const maxModelLen = Math.min(maxTokens, maxPositions);
      return new EmbeddedEmbedder(model, await EmbeddedEngine.open({ ...options, modelPath: model, maxModelLen, embeds: true }));
    } catch (cause) {
      if (!(cause instanceof EngineInputError || cause instanceof MemoryLimitError)) throw cause;
      throw new ConfigError(`The model ${model} cannot embed here: ${cause.message}`, { cause });
    }
  }

  async embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    const sequences = texts.map((text) => this.#tokens(text));
    const batches = Array.from({ length: Math.ceil(sequences.length / BATCH) }, (_, b) => sequences.slice(b * BATCH, (b + 1) * BATCH));
    try {
      return (await Promise.all(batches.map((batch) => this.#engine.embed(batch, signal)))).flat();
    } catch (cause) {
      if (!(cause instanceof EngineInputError)) throw cause;
      throw new RetrievalError(`${this.name}: ${thrownText(cause)}`, { cause });
    }
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Cuts as transformers does: the tokens that the tokenizer adds at the end stay, and the text before them is cut. */
  #tokens(text: string): Int32Array {
    const { tokenizer, maxModelLen } = this.#engine;
    const whole = tokenizer.encode(text.toWellFormed(), { addSpecialTokens: true });
    if (whole.length <= maxModelLen && whole.length > 0) return whole;
    const plain = tokenizer.encode(text.toWellFormed(), { addSpecialTokens: false });
    const added = whole.subarray(plain.length);
    const cut = new Int32Array(Math.min(maxModelLen, Math.max(1, whole.length)));
    if (whole.length === 0) return cut;
    cut.set(plain.subarray(0, maxModelLen - added.length));
    cut.set(added, maxModelLen - added.length);
    return cut;
  }
}
