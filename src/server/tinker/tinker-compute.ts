/** What trains and samples behind the server: the embedded engine, or a worker with a policy server. */
import type { TokenLogProb } from '../../engine/engine-types.ts';
import type { GradientBackend } from '../../trainer/gradient-backend.ts';

interface TrainedAdapter {
  readonly rank: number;
  readonly alpha: number;
  /** Last names of linear layers. */
  readonly targets: readonly string[];
  readonly seed: number;
  /** A PEFT directory to start from; null starts from the base. */
  readonly initial: string | null;
}

export interface TinkerSampling {
  /** [P] */
  readonly prompt: Int32Array;
  /** Name of a loaded adapter; null is the base. */
  readonly adapter: string | null;
  /** Null: as many as fit. */
  readonly maxTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  /** -1 keeps all. */
  readonly topK: number;
  readonly seed: number | null;
  /** Any of them ends the sample, and stays in its tokens. */
  readonly stop: { readonly strings: readonly string[]; readonly tokenIds: readonly number[]; readonly ignoresEnd: boolean };
  /** Also the log-probs of this many likeliest tokens, of each sampled one; 0 without. */
  readonly likeliest: number;
  /** The same for the prompt; null for no log-probs of the prompt. */
  readonly promptLikeliest: number | null;
  readonly signal: AbortSignal;
}

interface TinkerSampled {
  readonly stopReason: 'stop' | 'length';
  /** [T] */
  readonly tokens: Int32Array;
  /** Of the model's own distribution, at any temperature. [T] */
  readonly logProbs: Float32Array;
  /** Of each token: itself, then the likeliest. */
  readonly alternatives: readonly (readonly TokenLogProb[])[] | null;
  /** Of each token of the prompt: itself, then the likeliest; null for the first. */
  readonly promptRows: readonly (readonly TokenLogProb[] | null)[] | null;
  readonly cachedTokens: number;
}

export interface TinkerCompute {
  /** For people. */
  readonly description: string;
  /** Last names of the layers that `train_attn` and `train_mlp` mean. */
  readonly layers: { readonly attn: readonly string[]; readonly mlp: readonly string[] };
  readonly architecture: string;
  /** Where clients find the tokenizer. */
  readonly tokenizer: string;
  /** Longest sequence, in tokens. */
  readonly maxModelLen: number;
  readonly vocabularySize: number;
  /** Resolves with the reason once nothing can be computed any more. */
  readonly lost: Promise<Error>;
  train(adapter: TrainedAdapter, signal: AbortSignal): Promise<GradientBackend>;
  sample(request: TinkerSampling): Promise<TinkerSampled>;
  loadAdapter(adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }): Promise<unknown>;
  unloadAdapter(name: string): Promise<void>;
  close(): Promise<void>;
}
