/** A gradient backend with a slightly trained adapter, sequences for it, and readings of what a step did to the weights. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { Random } from '../../src/core/random.ts';
import type { AdamOptions } from '../../src/core/adam-options.ts';
import type { GradientBackend } from '../../src/trainer/gradient-backend.ts';
import type { TorchBackend } from '../../src/trainer/gradients/torch/torch-backend.ts';
import type { LossTerm } from '../../src/trainer/token-loss.ts';
import { ratioLoss, type RatioLossConfig } from '../../src/trainer/losses/ratio-loss.ts';
import type { TrainingSequence } from '../../src/trainer/credit.ts';
import type { OptimizerStepOptions } from '../../src/trainer/loop/optimizer-step.ts';
import { PhaseClock } from '../../src/trainer/loop/phase-clock.ts';
import { TokenBudget } from '../../src/trainer/gradients/token-budget.ts';
import { readAdapter, type Tensors } from '../contracts/gradient-cases.ts';
import { forkedPython, NANO_BASE } from './gradients/torch/torch-python.ts';
import { trajectory } from './some-trajectories.ts';

const VOCABULARY = 1600;
export const signal = new AbortController().signal;
export const ADAM: AdamOptions = { learningRate: 3e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
/** Adam without memory whose epsilon outweighs every gradient: θ becomes θ - 10^6 · gradient. */
const READING: AdamOptions = { learningRate: 1e16, beta1: 0, beta2: 0, epsilon: 1e10, weightDecay: 0, maxGradNorm: null };

/** GRPO's loss with clip-higher, as the only term. */
export function ratioTerm(changes: Partial<RatioLossConfig> = {}): LossTerm {
  const config: RatioLossConfig = {
    ratio: 'token',
    objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.28, dualClip: null },
    logRatioClamp: 20,
    correction: null,
    aggregation: { kind: 'token_mean' },
    kl: null,
    ...changes,
  };
  return { name: 'policy', isMain: true, loss: ratioLoss(config), weight: 1, on: 'rollouts', roles: null };
}

export class NanoTrainer<B extends GradientBackend = TorchBackend> implements AsyncDisposable {
  readonly backend: B;
  readonly #root: string;
  readonly #start: string;
  #folders = 0;

  private constructor(backend: B, root: string) {
    this.backend = backend;
    this.#root = root;
    this.#start = join(root, 'start');
  }

  static async open<B extends GradientBackend>(opening: Promise<B>): Promise<NanoTrainer<B>> {
    const trainer = new NanoTrainer(await opening, mkdtempSync(join(tmpdir(), 'vf-nano-')));
    await trainer.#warmUp();
    await trainer.backend.saveState(trainer.#start);
    return trainer;
  }

  /** Adapter and Adam as they were at first. */
  reset(): Promise<void> {
    return this.backend.loadState(this.#start);
  }

  folder(): string {
    return join(this.#root, `${++this.#folders}`);
  }

  async weights(): Promise<Record<string, Float32Array>> {
    return readAdapter((await this.backend.saveAdapter(this.folder())).directory);
  }

  /** The gradient that `step` takes, from what it did to the weights. */
  async gradientOf(step: (adam: AdamOptions) => Promise<unknown>): Promise<Tensors> {
    await this.reset();
    const before = await this.weights();
    await step(READING);
    const after = await this.weights();
    await this.reset();
    return Object.fromEntries(Object.entries(before).map(([name, old]) => [name, Float64Array.from(old, (x, i) => (x - after[name]![i]!) / 1e6)]));
  }

  async logProbs(ids: Int32Array, targets: Int32Array, adapter: 'on' | 'off' = 'on', temperature = 1): Promise<Float64Array> {
    if (targets.length === 0) return new Float64Array(0);
    const batch = { ids, targets, offsets: Int32Array.of(0, ids.length), temperature };
    return Float64Array.from((await this.backend.forward(batch, { retain: false, adapter, signal })).logProbs);
  }

  /**
   * One sequence for each advantage, of 6 to 26 tokens, about half of them sampled: by the trainer's weights at the start, moved by up to ± `noise`, so that
   * ratios are not 1.
   */
  async sequences(advantages: readonly number[], { noise = 0.6, temperature = 1, seed = 5 } = {}): Promise<TrainingSequence[]> {
    const made: TrainingSequence[] = [];
    for (const [i, advantage] of advantages.entries()) {
      const random = Random.fromSeed(seed).fork(`sequence ${i}`);
      const ids = Int32Array.from({ length: 6 + random.integer(21) }, () => random.integer(VOCABULARY));
      const targets = Int32Array.from(ids.keys()).filter((at) => at >= 2 && (at === 3 || random.integer(2) === 0));
      const own = await this.logProbs(ids, targets, 'on', temperature);
      const logProbs = own.map((value) => value + noise * (2 * (random.integer(1e6) / 1e6) - 1));
      const [group, index] = [Math.floor(i / 2), i % 2];
      const common = { advantages: new Float64Array(targets.length).fill(advantage), isDemonstration: false, ids, targets, logProbs };
      const shape = { ids, targets, logProbs, promptLength: 2, version: 3, reward: index };
      made.push({ ...common, trajectory: trajectory(`${group}/${index}`, shape), oldLogProbs: logProbs, referenceLogProbs: null });
    }
    return made;
  }

  stepOptions(changes: Partial<OptimizerStepOptions> = {}): OptimizerStepOptions {
    return {
      backend: this.backend,
      terms: [ratioTerm()],
      adam: ADAM,
      budget: new TokenBudget(1e6),
      temperature: 1,
      version: 3,
      timer: new PhaseClock(1, {}),
      signal,
      ...changes,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.backend.close();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** A few steps, so that B is not 0, A has a gradient, and Adam has moments. */
  async #warmUp(): Promise<void> {
    for (let step = 0; step < 2; step++) {
      const ids = Int32Array.from({ length: 24 }, (_, i) => (97 * i + 31 * step) % VOCABULARY);
      const targets = Int32Array.from({ length: 20 }, (_, i) => i + 3);
      const batch = { ids, targets, offsets: Int32Array.of(0, ids.length), temperature: 1 };
      const { batchId } = await this.backend.forward(batch, { retain: true, adapter: 'on', signal });
      await this.backend.backward(batchId, { dLogProbs: Float32Array.from(targets, (at) => Math.sin(at)) });
      await this.backend.optimStep(ADAM);
    }
  }
}

export interface AutogradCase {
  readonly adapter: string;
  readonly temperature: number;
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly kl: number;
  readonly entropy: number;
  readonly sequences: readonly TrainingSequence[];
}

/** What torch autograd in float64 finds, the loss included: grpo-autograd.py, one process for all cases. */
export async function lossGradients(cases: readonly AutogradCase[]): Promise<readonly Tensors[]> {
  const child = spawn(forkedPython(), [join(import.meta.dirname, 'grpo-autograd.py')], {
    env: { ...process.env, HF_HUB_OFFLINE: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const onWire = cases.map(({ clipLow, clipHigh, sequences, ...rest }) => ({
    ...rest,
    clip_low: clipLow,
    clip_high: clipHigh,
    sequences: sequences.map(({ ids, targets, oldLogProbs, advantages }) => ({
      ids: [...ids],
      targets: [...targets],
      old_log_probs: [...oldLogProbs!],
      advantage: advantages[0] ?? 0,
    })),
  }));
  child.stdin.end(JSON.stringify({ model: NANO_BASE, cases: onWire }));
  return (await json(child.stdout)) as Tensors[];
}
