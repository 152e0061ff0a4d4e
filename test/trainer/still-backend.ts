import type { GradientError } from '../../src/core/errors.ts';
import type {
  AdapterFiles,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
} from '../../src/trainer/gradient-backend.ts';

/** A backend that learns nothing: every log-prob is -1 unless a test says otherwise. For what happens around a backend, never for gradients. */
export class StillBackend implements GradientBackend {
  readonly capabilities: BackendCapabilities;
  readonly adapter = { rank: 1, alpha: 1, baseModel: 'still', modules: [], vocabularySize: 1600 };
  readonly forwarded: PackedBatch[] = [];
  /** What the next forward passes fail with. */
  failure: GradientError | null = null;
  /** The log-prob of the token at a place. */
  judge: (target: number, adapter: ForwardOptions['adapter']) => number = () => -1;
  isClosed = false;
  #steps = 0;

  constructor({ dtype = 'float32' }: { readonly dtype?: string } = {}) {
    this.capabilities = { name: 'still', description: 'still', device: 'cpu', dtype, entropyGradient: false, images: false, maxTokens: Infinity };
  }

  async forward(batch: PackedBatch, { adapter }: ForwardOptions): Promise<ForwardResult> {
    if (this.failure !== null) throw this.failure;
    this.forwarded.push(batch);
    return { batchId: `${this.forwarded.length}`, logProbs: Float32Array.from(batch.targets, (target) => this.judge(target, adapter)) };
  }

  async backward(): Promise<void> {}
  async drop(): Promise<void> {}
  async zeroGrad(): Promise<void> {}

  async optimStep(): Promise<OptimStepResult> {
    return { step: ++this.#steps, gradNorm: 1, skipped: false };
  }

  async hold(): Promise<void> {}
  async restore(): Promise<void> {}

  async isFinite(): Promise<boolean> {
    return true;
  }

  async movement(): Promise<number> {
    return 1;
  }

  async saveAdapter(directory: string): Promise<AdapterFiles> {
    return { kind: 'files', directory, rank: 1, alpha: 1, files: [] };
  }

  async saveState(): Promise<void> {}
  async loadState(): Promise<void> {}

  async close(): Promise<void> {
    this.isClosed = true;
  }
}
