/** What the gradient backend's contract is checked on: a backend that starts from a slightly trained adapter, and what an independent implementation finds. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GradientError } from '../../src/core/errors.ts';
import type { ForwardOptions, GradientBackend, PackedBatch } from '../../src/trainer/gradient-backend.ts';
import type { AdamOptions } from '../../src/core/adam-options.ts';
import { type GradientCase, type GradientReference, picturedBatch, smallBatch, someGradient, type TestedImages } from './gradient-cases.ts';

export interface GradientBackendTraits {
  /** The same base, rank, alpha and targets each time; `initial` is a PEFT directory to start from. */
  open(options: { readonly initial: string | null; readonly seed: number }): Promise<GradientBackend>;
  /** An implementation that shares nothing with the backend, in float64. */
  reference(cases: readonly GradientCase[]): Promise<readonly GradientReference[]>;
  /** Batches hold these; called once everything is set up. @default none */
  images?(): TestedImages;
}

const signal = new AbortController().signal;
export const ON: ForwardOptions = { retain: false, adapter: 'on', signal };
export const OFF: ForwardOptions = { ...ON, adapter: 'off' };
export const INITIAL: ForwardOptions = { ...ON, adapter: 'initial' };
export const KEPT: ForwardOptions = { ...ON, retain: true };
/** An epsilon that smooths the step where the gradient is all rounding. */
export const ADAM: AdamOptions = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-3, weightDecay: 0.1, maxGradNorm: 0.5 };

export class GradientSubject {
  backend!: GradientBackend;
  vocabularySize!: number;
  images: TestedImages | null = null;
  batch!: PackedBatch;
  /** A PEFT directory and a state directory: what each test begins with. */
  startAdapter!: string;
  startState!: string;
  /** What the backend that wrote `startAdapter` gave for the batch. */
  startLogProbs!: Float32Array;
  /** All that the reference is asked, in one go: it may take long to start. */
  cases!: readonly GradientCase[];
  references!: readonly GradientReference[];
  readonly #traits: GradientBackendTraits;
  #root!: string;
  #folders = 0;

  constructor(traits: GradientBackendTraits) {
    this.#traits = traits;
  }

  async open(): Promise<void> {
    this.#root = mkdtempSync(join(tmpdir(), 'vf-gradients-'));
    this.images = this.#traits.images?.() ?? null;
    await this.#train();
    this.cases = referenceCases(this.startAdapter, (temperature) => this.batchAt(temperature));
    this.references = await this.#traits.reference(this.cases);
    this.backend = await this.#traits.open({ initial: this.startAdapter, seed: 99 });
    this.startState = this.folder();
    await this.backend.saveState(this.startState);
  }

  async close(): Promise<void> {
    await this.backend?.close();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** A path that nothing has. */
  readonly folder = (): string => join(this.#root, `${++this.#folders}`);

  batchAt(temperature: number): PackedBatch {
    return this.images === null ? smallBatch(this.vocabularySize, temperature) : picturedBatch(this.vocabularySize, this.images, temperature);
  }

  async logProbs(batch: PackedBatch, options = ON): Promise<Float32Array> {
    return (await this.backend.forward(batch, options)).logProbs;
  }

  /** Adds the gradient of sum(dLogProbs · logProbs) over the batch. */
  async accumulate(batch: PackedBatch, dLogProbs: Float32Array): Promise<void> {
    const { batchId } = await this.backend.forward(batch, KEPT);
    await this.backend.backward(batchId, { dLogProbs });
  }

  /** B is 0 at first, and half of all mistakes are invisible. */
  async #train(): Promise<void> {
    this.backend = await this.#traits.open({ initial: null, seed: 7 });
    try {
      this.vocabularySize = this.backend.adapter.vocabularySize;
      this.batch = this.batchAt(1);
      for (const phase of [0, 1]) {
        await this.accumulate(this.batch, someGradient(this.batch.targets.length, phase));
        await this.backend.optimStep({ ...ADAM, learningRate: 0.03 });
      }
      this.startAdapter = (await this.backend.saveAdapter(this.folder())).directory;
      this.startLogProbs = await this.logProbs(this.batch);
    } finally {
      await this.backend.close();
    }
  }
}

/** The code of a rejection of one line; any other outcome in words. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'resolved';
  } catch (error) {
    return error instanceof GradientError && !error.message.includes('\n') ? error.code : `not a GradientError of one line: ${String(error)}`;
  }
}

/** All that the reference is asked, in one go: an independent implementation may take long to start. */
function referenceCases(adapter: string, batchAt: (temperature: number) => PackedBatch): GradientCase[] {
  const [cool, plain, warm] = [0.6, 1, 1.7].map(batchAt) as [PackedBatch, PackedBatch, PackedBatch];
  const dLogProbs = someGradient(plain.targets.length);
  return [
    { adapter: null, batch: plain },
    { adapter: null, batch: warm },
    { adapter, batch: cool, dLogProbs },
    { adapter, batch: warm, dLogProbs, dEntropy: someGradient(plain.targets.length, 2) },
    { adapter, batch: plain, dLogProbs, adam: { ...ADAM, steps: 3 } },
  ];
}
