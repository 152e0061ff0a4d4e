/**
 * Interface of a loss over tokens. A loss is a pure function: it turns the log-probs of a batch into its share of the step's loss and the derivative by
 * each log-prob, in float64. The registry has the built-in ones; a user's module can bring its own.
 */

/** Sizes of one whole optimiser step, known before its first gradient: losses are divided by these, however the step is split. */
export interface TokenCounts {
  /** Trained tokens. */
  readonly tokens: number;
  /** Sequences, those without a trained token included; rollouts, where their branches count as one sequence (`algorithm.branch_weight = "rollout"`). */
  readonly sequences: number;
  /** Sequences with at least one trained token. */
  readonly trainedSequences: number;
  /** Trained tokens by role, for losses with a mean per role. @default unknown */
  readonly tokensByRole?: ReadonlyMap<string, number>;
}

/** A number, and how it is merged with that of another part. A mean has the weight that it stands for: tokens or sequences. */
export type LossMetric =
  | { readonly merge: 'sum' | 'min' | 'max'; readonly value: number }
  | { readonly merge: 'mean'; readonly value: number; readonly weight: number };

/** Metrics by name. One that was not measured, for lack of tokens or because it is not configured, is absent. */
export type LossMetrics = Readonly<Record<string, LossMetric>>;

/** The columns that a loss reads in addition to the log-probs and advantages. The trainer computes only those that some loss needs. */
export interface LossNeeds {
  /** Log-probs under the policy before the step's first update (or the sampler's own, as `algorithm.old_log_probs` says). */
  readonly old: boolean;
  /** Log-probs under the policy at the start of the run. */
  readonly reference: boolean;
  /** The sampler's log-probs. A trajectory without them is refused. */
  readonly sampler: boolean;
  /** The entropy of each token's distribution, with a gradient; only some backends have it. @default false */
  readonly entropy?: boolean;
  /** The turn of each token. @default false */
  readonly turns?: boolean;
  /** The place of each token in its sequence and in its turn. @default false */
  readonly positions?: boolean;
  /** The tag that each token is written in. Needs the model's tokenizer.json on this machine. @default false */
  readonly kinds?: boolean;
}

/** Trained tokens of whole sequences, concatenated. */
export interface TokenLossBatch {
  /** Start of each sequence, then the end of the last one. [B + 1], from 0, never decreasing: a sequence may have no trained token. */
  readonly offsets: Int32Array;
  /** log π of each token under the trained policy, in nats; the gradient is taken by these. [N] */
  readonly logProbs: Float64Array;
  /** A constant per token: the advantage, or a demonstration's weight. [N] */
  readonly advantages: Float64Array;
  /** [N] if needed. */
  readonly oldLogProbs?: Float64Array;
  /** [N] if needed. */
  readonly referenceLogProbs?: Float64Array;
  /** [N] if needed. */
  readonly samplerLogProbs?: Float64Array;
  /** In nats. [N] if needed. */
  readonly entropy?: Float64Array;
  /** The number of each token's turn in its rollout, from 0; 0 in a demonstration. [N] if needed. */
  readonly turns?: Int32Array;
  /** The place of each token in its whole sequence, prompt and observations included, from 0. [N] if needed (`positions`). */
  readonly positions?: Int32Array;
  /** The place of each token among the sampled ones of its turn, from 0. [N] if needed (`positions`). */
  readonly turnPositions?: Int32Array;
  /**
   * The innermost tag that each token is written in, such as `think`, `search`, `answer` or `tool_call`; the tokens of the tag itself are in it. Empty outside of
   * tags. [N] if needed.
   */
  readonly kinds?: readonly string[];
  /**
   * Trained tokens of what each sequence counts as in `counts`: those of its rollout in the whole step, over all of its branches. A mean within a sequence divides by it. [B]
   * @default each sequence counts by itself, with its own tokens
   */
  readonly lengths?: Int32Array;
  /** Whose tokens each sequence has: `<example id>/<index>`. [B] @default unknown */
  readonly rolloutIds?: readonly string[];
  /** The role that wrote each sequence. [B] @default one role */
  readonly roles?: readonly string[];
}

export interface TokenLossValue {
  /** This batch's share of the step's loss, to be minimised. The shares of all parts sum to the step's loss. */
  readonly loss: number;
  /** dLoss / dlogProbs. [N] */
  readonly gradient: Float64Array;
  /** dLoss / dentropy. [N], only from a loss that needs the entropy. */
  readonly dEntropy?: Float64Array;
  readonly metrics: LossMetrics;
}

export interface TokenLoss {
  readonly needs: LossNeeds;
  /** Tokens with advantage 0 have no gradient under this loss, so sequences without another one need no forward pass. @default false */
  readonly ignoresZeroAdvantages?: boolean;
  /** @param counts of the whole optimiser step, for the divisor; `batch` may be a part of it */
  evaluate(batch: TokenLossBatch, counts: TokenCounts): TokenLossValue;
}

/** A role that a source plays with the policy. */
export interface PlayedRole {
  /** Other names that settings may give it. @default none */
  readonly aliases?: readonly string[];
  /** False if this run does not train on it: settings by role need no value for it. @default true */
  readonly isTrained?: boolean;
}

/** The roles that a source plays, by name. */
export type PlayedRoles = Readonly<Record<string, PlayedRole>>;

/** One of the losses of a run: which loss is taken on which trajectories, with which weight. */
export interface LossTerm {
  /** Prefix of its metrics (`loss/<name>/`), unless `isMain`. */
  readonly name: string;
  /** Its metrics have no prefix. */
  readonly isMain: boolean;
  readonly loss: TokenLoss;
  readonly weight: number;
  /** The trajectories that the loss is taken on: those with a reward, or demonstrations. */
  readonly on: 'rollouts' | 'demonstrations';
  /** Only trajectories of these roles; null for all. */
  readonly roles: readonly string[] | null;
}

/** Throws RangeError if a column that the loss needs is missing or has another length. */
export function checkColumns(needs: LossNeeds, batch: TokenLossBatch): void {
  const size = batch.logProbs.length;
  const needed: [name: keyof TokenLossBatch, isNeeded: boolean][] = [
    ['advantages', true],
    ['oldLogProbs', needs.old],
    ['referenceLogProbs', needs.reference],
    ['samplerLogProbs', needs.sampler],
    ['entropy', needs.entropy ?? false],
    ['turns', needs.turns ?? false],
    ['positions', needs.positions ?? false],
    ['kinds', needs.kinds ?? false],
  ];
  for (const [name, isNeeded] of needed) {
    if (isNeeded && batch[name]?.length !== size)
      throw new RangeError(`There are ${size} log-probs, but ${name} has ${batch[name]?.length ?? 'no values'}`);
  }
}
