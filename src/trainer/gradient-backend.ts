/**
 * Interface between the trainer and the gradient backend: a PyTorch worker, the embedded engine, or a remote service. A backend holds a frozen
 * base, one LoRA adapter and its Adam state. It knows nothing of the loss: it returns log-probs of the target tokens, the trainer computes
 * dLoss / dlogProbs in float64, and the backend propagates that to the adapter. Calls run one at a time, in order.
 */
import { CancelledError, GradientError } from '../core/errors.ts';
import type { AdamOptions } from '../core/adam-options.ts';

/** Whole trajectories, concatenated without padding. A trajectory is never split and never attends to another. */
export interface PackedBatch {
  /** Token ids of all sequences. [N] */
  readonly ids: Int32Array;
  /** Start of each sequence, then the end of the last one. [B + 1], strictly increasing from 0: no sequence is empty. */
  readonly offsets: Int32Array;
  /**
   * Indices in `ids` of the tokens whose log-prob is wanted, ascending. [M], M ≥ 1. Never the first token of a sequence, which nothing predicts.
   * The backend does the shift: hidden state `t - 1` predicts token `t`.
   */
  readonly targets: Int32Array;
  /** Ids whose log-probs are wanted, in place of those at the targets: what the policy could have said there. [M] @default `ids` at the targets */
  readonly targetIds?: Int32Array;
  /** Sampling temperature: logits are divided by it before the softmax. Above 0. */
  readonly temperature: number;
  /** Images, by sequence and place; absent without any. A backend without images refuses the batch with `bad_input`. */
  readonly images?: readonly PackedImage[];
}

/** An image of a packed batch. */
export interface PackedImage {
  /** Index of its sequence. */
  readonly sequence: number;
  /** Hex digest of its bytes, by which the backend finds them. */
  readonly sha256: string;
  /** Index in the batch's `ids` of its first token. */
  readonly offset: number;
  /** Number of its tokens. */
  readonly length: number;
}

export interface ForwardOptions {
  /** Keep the activations that `backward` needs until `backward` or `drop`. */
  readonly retain: boolean;
  /** `off`: the frozen base. `initial`: the policy at the start of the run, that is the base with the initial adapter if there was one. */
  readonly adapter: 'on' | 'off' | 'initial';
  /** Also return the entropy of each target's distribution, in nats. @default false */
  readonly entropy?: boolean;
  readonly signal: AbortSignal;
}

export interface ForwardResult {
  readonly batchId: string;
  /** Natural-log probability of each target at the batch's temperature. [M] */
  readonly logProbs: Float32Array;
  /** [M], only if requested. */
  readonly entropy?: Float32Array;
}

export interface BackendCapabilities {
  /** `torch`, `embedded`, ... */
  readonly name: string;
  /** Human-readable: versions, device. */
  readonly description: string;
  readonly device: string;
  /** Type of the frozen base: `float32`, `bfloat16`, or `unknown` at a service. The adapter and Adam are always float32. */
  readonly dtype: string;
  /** True if `backward` accepts dEntropy. */
  readonly entropyGradient: boolean;
  /** True if batches may hold images. */
  readonly images: boolean;
  /** Largest batch known to fit, in tokens; Infinity if unknown. */
  readonly maxTokens: number;
}

/** The adapter and the linear layers of the base that it adapts. */
export interface AdapterDescription {
  readonly rank: number;
  /** The adapter adds (alpha / rank) · B A x. */
  readonly alpha: number;
  /** The base's directory or hub id, as it was given. */
  readonly baseModel: string;
  /** Every adapted layer, with its full path in the base (`model.layers.0.self_attn.q_proj`). */
  readonly modules: readonly AdaptedModule[];
  readonly vocabularySize: number;
}

export interface AdaptedModule {
  readonly path: string;
  readonly inFeatures: number;
  readonly outFeatures: number;
}

export interface OptimStepResult {
  /** Steps taken since the adapter was created; skipped steps do not count. */
  readonly step: number;
  /** Norm of the accumulated gradient before clipping; NaN or Infinity if it was not finite, NaN also if a remote service does not say it. */
  readonly gradNorm: number;
  /** The gradient held NaN or an infinity: it was discarded and no weight changed. */
  readonly skipped: boolean;
}

/** What `saveAdapter` has written. */
export type AdapterManifest = AdapterFiles | RemoteAdapter;

/** An adapter that stays at a training service, and a directory that says where. */
export interface RemoteAdapter {
  readonly kind: 'remote';
  /** Absolute. */
  readonly directory: string;
  /** By which the service samples from it: a `tinker://` path. */
  readonly reference: string;
  readonly rank: number;
  readonly alpha: number;
}

/** A PEFT directory on disk: adapter_config.json and adapter_model.safetensors. */
export interface AdapterFiles {
  readonly kind: 'files';
  /** Absolute. */
  readonly directory: string;
  readonly rank: number;
  readonly alpha: number;
  readonly files: readonly { readonly name: string; readonly bytes: number; readonly sha256: string }[];
}

/**
 * The part of a backend that a step needs: everything but files. Every method rejects with GradientError, or with CancelledError when its signal aborts. After `lost` the
 * backend is unusable. After any other code it remains usable: adapter, Adam state and accumulated gradient are as they were before the call.
 */
export interface GradientComputation {
  readonly capabilities: BackendCapabilities;
  readonly adapter: AdapterDescription;
  forward(batch: PackedBatch, options: ForwardOptions): Promise<ForwardResult>;
  /** Adds to the accumulated gradient and drops the batch. dLogProbs [M]; dEntropy [M], only if `entropyGradient` is true. */
  backward(batchId: string, gradient: { readonly dLogProbs: Float32Array; readonly dEntropy?: Float32Array }): Promise<void>;
  /** Drops a retained batch. */
  drop(batchId: string): Promise<void>;
  /** Clears the accumulated gradient. */
  zeroGrad(): Promise<void>;
  /** Takes one Adam step on the accumulated gradient, then clears it and all retained batches. Without a gradient it fails with `bad_input`. */
  optimStep(options: AdamOptions): Promise<OptimStepResult>;
  /** Keeps a copy of adapter, Adam state and random state in memory, in place of an earlier one, until `restore`. */
  hold(): Promise<void>;
  /** Returns to the copy that `hold` made, bit for bit; also drops gradient and retained batches. Without a copy it fails with `bad_input`. */
  restore(): Promise<void>;
  /** True if every number of the adapter and of Adam's moments is finite where they can be seen: a state with another one cannot be loaded. */
  isFinite(): Promise<boolean>;
  /**
   * The greatest absolute difference of a weight of the adapter from the copy that `hold` made; null if a remote service does not show weights. Without a copy it fails with
   * `bad_input`.
   */
  movement(): Promise<number | null>;
  close(): Promise<void>;
}

/** A backend that also keeps its adapter and state in files. */
export interface GradientBackend extends GradientComputation {
  /** Writes a PEFT directory, or one that says where a service keeps the adapter: complete and durable once resolved, absent if rejected. `directory` must not exist. */
  saveAdapter(directory: string): Promise<AdapterManifest>;
  /** Saves adapter, Adam moments, step count and random state, so that training after `loadState` is bit-identical. `directory` must not exist. */
  saveState(directory: string): Promise<void>;
  /** Replaces everything but the base and clears the accumulated gradient. Refuses a state of another base, rank or set of modules with `bad_input`, and one that is not finite with `not_finite`. */
  loadState(directory: string): Promise<void>;
  /** Gives memory that no tensor uses back to the device, for another program. @default the backend keeps none */
  releaseMemory?(): Promise<void>;
}

/** True if nothing more can be asked of a gradient backend: it is lost, or its work was cancelled. Any other error of a write is about that write. */
export function endsBackend(error: unknown): boolean {
  return error instanceof CancelledError || (error instanceof GradientError && error.code === 'lost');
}
