import type { GradientError } from '../../src/core/errors.ts';
import type {
  AdapterManifest,
  BackendCapabilities,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
} from '../../src/trainer/gradients/gradient-backend.ts';

/** A backend that learns nothing: every log-prob is -1. For what happens around a backend, never for gradients. */
export class StillBackend implements GradientBackend {
  readonly capabilities: BackendCapabilities;
  readonly adapter = { rank: 1, alpha: 1, baseModel: 'still', modules: [], vocabularySize: 1600 };
  readonly forwarded: PackedBatch[] = [];
  /** What the next forward passes come to. */
  failure: GradientError | null = null;
  isClosed = false;
  #steps = 0;

  constructor({ dtype = 'float32' }: { readonly dtype?: string } = {}) {
    this.capabilities = { name: 'still', description: 'still', device: 'cpu', dtype, entropyGradient: false, maxTokens: Infinity };
  }

  async forward(batch: PackedBatch): Promise<ForwardResult> {
    if (this.failure !== null) throw this.failure;
    this.forwarded.push(batch);
    return { batchId: `${this.forwarded.length}`, logProbs: new Float32Array(batch.targets.length).fill(-1) };
  }

  async backward(): Promise<void> {}
  async drop(): Promise<void> {}
  async zeroGrad(): Promise<void> {}

  async optimStep(): Promise<OptimStepResult> {
    return { step: ++this.#steps, gradNorm: 1, skipped: false };
  }

  async saveAdapter(directory: string): Promise<AdapterManifest> {
    return { directory, rank: 1, alpha: 1, files: [] };
  }

  async saveState(): Promise<void> {}
  async loadState(): Promise<void> {}

  async close(): Promise<void> {
    this.isClosed = true;
  }
}
