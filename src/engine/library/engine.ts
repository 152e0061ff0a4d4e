/**
 * The embedded engine for programs: text or token ids in, defaults for everything else, adapters that pass from the trainer to the sampler without a file. It only
 * translates to the engine of this package (`engine-types.ts`), which `vf-serve policy` and `vf-train` use as well, so the same call gives the same tokens in all of them.
 */
import { onAbort } from '../../core/abort.ts';
import { ConfigError } from '../../core/errors.ts';
import { bundledModels, modelPath } from '../../data/bundled-models.ts';
import type { ModelTokenizer } from '../../tokenizer/tokenizer-types.ts';
import { EmbeddedEngine } from '../embedded-engine.ts';
import { EngineInputError } from '../engine-errors.ts';
import type { EngineOptions, EngineStats, GenerateRequest, GenerationDelta, TokenEngine } from '../engine-types.ts';
import type { ModelConfig } from '../model/model-types.ts';
import { Adapter } from './adapter.ts';
import {
  type GeneratedPart,
  type GeneratedText,
  generatedText,
  generateRequest,
  type GenerationOptions,
  type Prompt,
  promptIds,
} from './generation-options.ts';
import { checkNames, inOwnNames } from './given-options.ts';
import { Trainer, trainerOptions, type TrainerOptions } from './trainer.ts';

export interface OpenOptions extends Omit<EngineOptions, 'modelPath' | 'maxPending' | 'signal'> {
  /** Directory of a dense Qwen3 model in the Hugging Face format, or the name of a bundled model: `nano-base`. */
  readonly model: string;
  /** Cancels the opening; has no effect afterwards. @default none */
  readonly signal?: AbortSignal;
}

const OPTIONS = [
  'model',
  'chatTemplate',
  'threads',
  'maxModelLen',
  'cacheTokens',
  'seed',
  'signal',
] as const satisfies readonly (keyof OpenOptions)[];

export class Engine implements AsyncDisposable {
  readonly #engine: TokenEngine;
  #adapters = 0;

  private constructor(engine: TokenEngine) {
    this.#engine = engine;
  }

  /**
   * Reads the model and starts the threads: 0.1 s for the bundled model, seconds for one of a billion parameters. Close the engine at the end; its threads keep the process
   * alive. Rejects with EngineInputError if the model is missing, of another kind or does not match the options, MemoryLimitError if it does not fit, or CancelledError.
   *
   * @example
   * await using engine = await Engine.open({ model: 'nano-base' });
   * const { text } = await engine.generate({ prompt: 'Question: Who is the mayor of Trafam?', maxNewTokens: 40, temperature: 0 });
   */
  static async open(options: OpenOptions): Promise<Engine> {
    checkNames('Engine.open', options, OPTIONS);
    const { model, signal = new AbortController().signal, ...rest } = options;
    if (typeof model !== 'string') throw new EngineInputError(`The model must be a directory or a name, got ${typeof model}.`, { param: 'model' });
    try {
      // A program waits for its own requests, so they are never refused as too many.
      return new Engine(await EmbeddedEngine.open({ ...rest, modelPath: modelPath(model), maxPending: Number.MAX_SAFE_INTEGER, signal }));
    } catch (error) {
      if (error instanceof ConfigError) throw new EngineInputError(error.message, { code: 'not_found', param: 'model', cause: error });
      if (!(error instanceof EngineInputError && error.code === 'not_found')) throw error;
      const { message, code } = error;
      throw new EngineInputError(`${message}, or the name of a bundled model (${bundledModels().join(', ')})`, {
        code,
        param: 'model',
        cause: error,
      });
    }
  }

  /** For people, e.g. `embedded engine, relaxed SIMD, 2 threads, 992,640 parameters`. */
  get description(): string {
    return this.#engine.description;
  }

  /** The model's sizes, and its end tokens (`endTokenIds`). */
  get config(): ModelConfig {
    return this.#engine.config;
  }

  /** Encodes and decodes text, and renders conversations with the model's chat template. */
  get tokenizer(): ModelTokenizer {
    return this.#engine.tokenizer;
  }

  /** Longest sequence, prompt and generation together, in tokens. */
  get maxModelLen(): number {
    return this.#engine.maxModelLen;
  }

  /** Tokens so far, use of the cache, allocated memory. */
  get stats(): EngineStats {
    return this.#engine.stats();
  }

  /**
   * Generates after a prompt. Calls may overlap: the engine computes them together, which is much faster than one after another, and the results do not depend on it.
   * Rejects with EngineInputError (nothing ran), CancelledError, NotFiniteError (the model computed a NaN) or EngineLostError (a thread died; open a new engine).
   *
   * @example
   * const samples = await Promise.all([1, 2, 3, 4].map((seed) => engine.generate({ prompt, maxNewTokens: 64, stop: '</answer>', seed })));
   */
  async generate(options: GenerationOptions): Promise<GeneratedText> {
    return await this.#generate(() => generateRequest(this.#engine, options));
  }

  /**
   * As `generate`, piece by piece. Text is held back while it may be half a character or the beginning of a stop text. Leaving the loop ends the generation.
   *
   * @example
   * for await (const { text } of engine.stream({ prompt, maxNewTokens: 200 })) show(text);
   */
  async *stream(options: GenerationOptions): AsyncGenerator<GeneratedPart, GeneratedText, void> {
    const left = new AbortController();
    using _ = onAbort(options.signal ?? left.signal, () => left.abort(options.signal?.reason));
    let generated: GeneratedText | null = null;
    const parts = new ReadableStream<GeneratedPart>({
      // A rejection becomes the stream's error, which a caller that has left the loop does not see.
      start: async (controller) => {
        const onProgress = ({ ids, text, logProbs }: GenerationDelta) => controller.enqueue({ ids, text, logProbs });
        generated = await this.#generate(() => ({ ...generateRequest(this.#engine, options), signal: left.signal, onProgress }));
        controller.close();
      },
      cancel: () => left.abort(),
    });
    yield* parts;
    // The parts end only after it.
    return generated!;
  }

  /**
   * Log-probs of given tokens, each after those before it: element i belongs to token i + 1, because nothing predicts the first. Natural logarithm, at temperature 1,
   * exactly the numbers that `generate` reports for the same tokens. [T - 1] for T from 1 to `maxModelLen - 1` tokens. Rejects as `generate` does.
   *
   * @example
   * const ids = [...prompt, ...answer];
   * const logProbOfAnswer = (await engine.logProbs(ids)).slice(prompt.length - 1).reduce((sum, logProb) => sum + logProb, 0);
   */
  async logProbs(tokens: Prompt, options: { readonly adapter?: Adapter | null; readonly signal?: AbortSignal } = {}): Promise<Float32Array> {
    checkNames('logProbs', options, ['adapter', 'signal']);
    const prompt = promptIds(this.#engine, tokens);
    // The engine scores prompts on the way to sampling, so one token is sampled.
    if (prompt.length >= this.maxModelLen) {
      const remedy = 'Pass fewer, or score them with `trainer.logProbs`, which takes one more.';
      throw new EngineInputError(`logProbs takes up to ${this.maxModelLen - 1} tokens, got ${prompt.length}. ${remedy}`, { code: 'too_long' });
    }
    const request = generateRequest(this.#engine, { prompt, maxNewTokens: 1, temperature: 0, ...options });
    try {
      const { promptLogProbs } = await this.#engine.generate({ ...request, logProbs: null, promptLogProbs: 0 });
      return Float32Array.from(promptLogProbs!.slice(1), (scored) => scored![0]!.logProb);
    } catch (error) {
      throw inOwnNames(error);
    }
  }

  /**
   * Reads a LoRA adapter from a PEFT directory. Rejects with EngineInputError if it is missing, belongs to another model or holds a number that is not finite.
   *
   * @example
   * using adapter = await engine.loadAdapter('outputs/train/RUN/checkpoints/step-000015/adapter');
   * const { text } = await engine.generate({ prompt, adapter });
   */
  async loadAdapter(directory: string, options: { readonly signal?: AbortSignal } = {}): Promise<Adapter> {
    checkNames('loadAdapter', options, ['signal']);
    const { signal = new AbortController().signal } = options;
    return new Adapter(this.#engine, await this.#engine.loadAdapter({ name: this.#nextName(), directory, signal }), null);
  }

  /**
   * A trainer of one LoRA adapter. An engine can have several, as many as its memory holds; each gives the numbers that it would give alone, and their calls are carried out in
   * turn. The base is shared by them and the sampler, not copied. Rejects with EngineInputError, MemoryLimitError or CancelledError.
   *
   * @example
   * await using trainer = await engine.createTrainer({ rank: 8 });
   */
  async createTrainer(options: TrainerOptions = {}): Promise<Trainer> {
    const given = trainerOptions(options);
    const trainer = await this.#engine.createTrainer(given).catch((error: unknown) => {
      throw inOwnNames(error);
    });
    return new Trainer({ engine: this.#engine, trainer, nextName: () => this.#nextName() });
  }

  /** Ends the threads. Running calls reject with CancelledError. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #generate(makeRequest: () => GenerateRequest): Promise<GeneratedText> {
    const request = makeRequest();
    try {
      return generatedText(await this.#engine.generate(request));
    } catch (error) {
      throw inOwnNames(error);
    }
  }

  #nextName(): string {
    return `adapter-${++this.#adapters}`;
  }
}
