/**
 * The joint between the trainer and whatever differentiates the model: a PyTorch worker, the embedded engine, a remote service. A backend holds a
 * frozen base, one LoRA adapter and its Adam state. It knows no loss: it gives log-probs of the tokens it is asked for, the trainer computes
 * dLoss / dlogProbs in float64, the backend carries that on to the adapter. One call at a time; calls are answered in order.
 */

/** Whole trajectories, one after another, without padding. A trajectory is never split and never attends to another. */
export interface PackedBatch {
  /** Token ids of all sequences. [N] */
  readonly ids: Int32Array;
  /** Where each sequence starts, then where the last one ends. [B + 1], from 0, rising: no sequence is empty. */
  readonly offsets: Int32Array;
  /**
   * Places in `ids` of the tokens whose log-prob is wanted, ascending. [M], M ≥ 1. Never the first token of a sequence, which nothing predicts.
   * That the state at `t - 1` predicts the token at `t` is the backend's affair and nobody else's.
   */
  readonly targets: Int32Array;
  /** Logits are divided by it before the softmax: the sampling temperature. Above 0. */
  readonly temperature: number;
}

export interface ForwardOptions {
  /** Keeps what `backward` needs, until `backward` or `drop`. */
  readonly retain: boolean;
  /** `off`: the frozen base. `initial`: the policy that the run began with, the base or the adapter on it that the backend was started with. */
  readonly adapter: 'on' | 'off' | 'initial';
  /** Also give the entropy of each target's distribution, in nats. @default false */
  readonly entropy?: boolean;
  readonly signal: AbortSignal;
}

export interface ForwardResult {
  readonly batchId: string;
  /** Natural-log probability of each target at the batch's temperature. [M] */
  readonly logProbs: Float32Array;
  /** [M], when asked for. */
  readonly entropy?: Float32Array;
}

export interface BackendCapabilities {
  /** `torch`, `embedded`, ... */
  readonly name: string;
  /** For people: versions, device. */
  readonly description: string;
  readonly device: string;
  /** Of the frozen base: `float32`, `bfloat16`. The adapter and Adam are float32 always. */
  readonly dtype: string;
  /** `backward` takes dEntropy. */
  readonly entropyGradient: boolean;
  /** Tokens of a batch beyond which it is known not to fit; Infinity where that is not known. */
  readonly maxTokens: number;
}

/** The adapter, and the linear layers of the base that it stands beside. */
export interface AdapterDescription {
  readonly rank: number;
  /** The adapter adds (alpha / rank) · B A x. */
  readonly alpha: number;
  /** The base as it is called in `adapter_config.json`. */
  readonly baseModel: string;
  /** Every adapted layer, by its full path in the base (`model.layers.0.self_attn.q_proj`). */
  readonly modules: readonly AdaptedModule[];
  readonly vocabularySize: number;
}

export interface AdaptedModule {
  readonly path: string;
  readonly inFeatures: number;
  readonly outFeatures: number;
}

export interface AdamOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Decoupled, as AdamW's. */
  readonly weightDecay: number;
  /** The gradient is scaled down to this norm where it is longer; null never. */
  readonly maxGradNorm: number | null;
}

export interface OptimStepResult {
  /** Steps taken since the adapter was made; a skipped one does not count. */
  readonly step: number;
  /** Of the accumulated gradient before clipping; NaN or Infinity where it was not finite. */
  readonly gradNorm: number;
  /** The gradient held NaN or an infinity: nothing was changed and the gradient is gone. */
  readonly skipped: boolean;
}

/** A PEFT directory as it lies on disk: adapter_config.json and adapter_model.safetensors. */
export interface AdapterManifest {
  /** Absolute. */
  readonly directory: string;
  readonly rank: number;
  readonly alpha: number;
  readonly files: readonly { readonly name: string; readonly bytes: number; readonly sha256: string }[];
}

/**
 * Every method rejects with GradientError, or with CancelledError when its signal aborts. After `lost` the backend is of no use; after any other code it goes on, its adapter and Adam state
 * unchanged and the accumulated gradient as it was before the call.
 */
export interface GradientBackend {
  readonly capabilities: BackendCapabilities;
  readonly adapter: AdapterDescription;
  forward(batch: PackedBatch, options: ForwardOptions): Promise<ForwardResult>;
  /** Adds to the accumulated gradient and forgets the batch. dLogProbs [M], dEntropy [M] where `entropyGradient` says so. */
  backward(batchId: string, gradient: { readonly dLogProbs: Float32Array; readonly dEntropy?: Float32Array }): Promise<void>;
  /** Forgets a retained batch. */
  drop(batchId: string): Promise<void>;
  /** Forgets the accumulated gradient. */
  zeroGrad(): Promise<void>;
  /** One Adam step on the accumulated gradient, which is then forgotten, as are retained batches. Without a gradient it is `bad_input`. */
  optimStep(options: AdamOptions): Promise<OptimStepResult>;
  /** Writes a PEFT directory: complete and durable when it resolves, absent when it rejects. `directory` must not exist. */
  saveAdapter(directory: string): Promise<AdapterManifest>;
  /** Adapter, Adam moments, step count and random state, so that `loadState` goes on bit for bit. `directory` must not exist. */
  saveState(directory: string): Promise<void>;
  /** Replaces everything but the base; the accumulated gradient is forgotten. Refuses a state of another base, rank or set of modules. */
  loadState(directory: string): Promise<void>;
  close(): Promise<void>;
}
