/**
 * The smallest model that learns: one logit a token, whatever came before. Real gradients, real Adam, its state on disk; the loop around it cannot tell.
 * The base has logits 0; the adapter is what is added. For the loop alone: nothing of LoRA is in it.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CancelledError, GradientError } from '../../src/core/errors.ts';
import type {
  AdapterFiles,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
} from '../../src/trainer/gradient-backend.ts';
import type { AdamOptions } from '../../src/core/adam-options.ts';

const VOCABULARY = 256;
type Call = 'forward' | 'backward' | 'optimStep' | 'saveAdapter' | 'saveState' | 'loadState';

export class UnigramBackend implements GradientBackend {
  readonly capabilities: BackendCapabilities = {
    name: 'unigram',
    description: 'unigram',
    device: 'cpu',
    dtype: 'float32',
    entropyGradient: false,
    images: false,
    maxTokens: Infinity,
  };
  readonly adapter = { rank: 1, alpha: 1, baseModel: 'unigram', modules: [], vocabularySize: VOCABULARY };
  /** Called before each call, which fails with what it throws. After `lost` every call fails. */
  readonly #before: (call: Call, batch?: PackedBatch) => void;
  readonly #retained = new Map<string, Int32Array>();
  #logits = new Float64Array(VOCABULARY);
  #first = new Float64Array(VOCABULARY);
  #second = new Float64Array(VOCABULARY);
  #gradient = new Float64Array(VOCABULARY);
  #steps = 0;
  #held: {
    readonly logits: Float64Array<ArrayBuffer>;
    readonly first: Float64Array<ArrayBuffer>;
    readonly second: Float64Array<ArrayBuffer>;
    readonly steps: number;
  } | null = null;
  #batches = 0;
  #lost: GradientError | null = null;
  isClosed = false;

  constructor(before: (call: Call, batch?: PackedBatch) => void = () => {}) {
    this.#before = before;
  }

  async forward(batch: PackedBatch, { retain, adapter, signal }: ForwardOptions): Promise<ForwardResult> {
    const { ids, targets, temperature } = batch;
    this.#enter('forward', batch);
    if (signal.aborted) throw new CancelledError('The call forward was cancelled', { cause: signal.reason });
    const batchId = `batch-${++this.#batches}`;
    const tokens = targets.map((at) => ids[at]!);
    const shares = softmax(adapter === 'on' ? this.#logits : new Float64Array(VOCABULARY), temperature);
    if (retain) this.#retained.set(batchId, tokens);
    return { batchId, logProbs: Float32Array.from(tokens, (id) => Math.log(shares[id]!)) };
  }

  async backward(batchId: string, { dLogProbs }: { readonly dLogProbs: Float32Array }): Promise<void> {
    this.#enter('backward');
    const tokens = this.#retained.get(batchId)!;
    this.#retained.delete(batchId);
    const shares = softmax(this.#logits, 1);
    const total = dLogProbs.reduce((sum, value) => sum + value, 0);
    for (let id = 0; id < VOCABULARY; id++) this.#gradient[id]! -= total * shares[id]!;
    for (const [i, id] of tokens.entries()) this.#gradient[id]! += dLogProbs[i]!;
  }

  async drop(batchId: string): Promise<void> {
    this.#retained.delete(batchId);
  }

  async zeroGrad(): Promise<void> {
    this.#gradient.fill(0);
  }

  async optimStep({ learningRate, beta1, beta2, epsilon }: AdamOptions): Promise<OptimStepResult> {
    this.#enter('optimStep');
    this.#steps++;
    const gradNorm = Math.hypot(...this.#gradient);
    for (let id = 0; id < VOCABULARY; id++) {
      const slope = this.#gradient[id]!;
      this.#first[id] = beta1 * this.#first[id]! + (1 - beta1) * slope;
      this.#second[id] = beta2 * this.#second[id]! + (1 - beta2) * slope * slope;
      const [mean, square] = [this.#first[id]! / (1 - beta1 ** this.#steps), this.#second[id]! / (1 - beta2 ** this.#steps)];
      this.#logits[id]! -= (learningRate * mean) / (Math.sqrt(square) + epsilon);
    }
    await this.zeroGrad();
    return { step: this.#steps, gradNorm, skipped: false };
  }

  async hold(): Promise<void> {
    this.#held = { logits: this.#logits.slice(), first: this.#first.slice(), second: this.#second.slice(), steps: this.#steps };
  }

  async restore(): Promise<void> {
    const { logits, first, second, steps } = this.#held!;
    [this.#logits, this.#first, this.#second, this.#steps] = [logits, first, second, steps];
    await this.zeroGrad();
  }

  async isFinite(): Promise<boolean> {
    return [this.#logits, this.#first, this.#second].every((numbers) => numbers.every(Number.isFinite));
  }

  async movement(): Promise<number> {
    return Math.max(...[...this.#logits].map((logit, i) => Math.abs(logit - this.#held!.logits[i]!)));
  }

  async saveAdapter(directory: string): Promise<AdapterFiles> {
    this.#enter('saveAdapter');
    await write(directory, { logits: [...this.#logits] });
    return { kind: 'files', directory, rank: 1, alpha: 1, files: [] };
  }

  async saveState(directory: string): Promise<void> {
    this.#enter('saveState');
    await write(directory, { logits: [...this.#logits], first: [...this.#first], second: [...this.#second], steps: this.#steps });
  }

  async loadState(directory: string): Promise<void> {
    this.#enter('loadState');
    const state = JSON.parse(await readFile(join(directory, 'unigram.json'), 'utf8')) as Record<'logits' | 'first' | 'second', number[]> & {
      steps: number;
    };
    this.#logits = Float64Array.from(state.logits);
    this.#first = Float64Array.from(state.first);
    this.#second = Float64Array.from(state.second);
    this.#steps = state.steps;
    await this.zeroGrad();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.#lost ??= new GradientError('Expected an open backend, it is closed', { code: 'lost' });
  }

  #enter(call: Call, batch?: PackedBatch): void {
    if (this.#lost) throw this.#lost;
    try {
      this.#before(call, batch);
    } catch (error) {
      if (error instanceof GradientError && error.code === 'lost') this.#lost = error;
      throw error;
    }
  }
}

async function write(directory: string, content: object): Promise<void> {
  // As the interface says: it must not exist.
  await mkdir(directory).catch((cause: unknown) => {
    throw new GradientError(`Expected a new directory, got ${directory}`, { code: 'bad_input', cause });
  });
  await writeFile(join(directory, 'unigram.json'), JSON.stringify(content));
}

function softmax(logits: Float64Array, temperature: number): Float64Array {
  const weights = logits.map((logit) => Math.exp(logit / temperature));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}
