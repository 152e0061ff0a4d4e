/** Why a step changed no weight. It is recorded with the `step_skipped` event of the step, and whatever advises quotes it and gives the remedy of its kind. */

/**
 * `empty`: the source of the step brought nothing to train on. `constant`: no rollouts that are compared have different rewards. `failed`, `unplayed`: too few rollouts finished to be compared, because the others failed or
 * left the policy no room for a first token. `masked`: those that were cut short are left out, and no other is left. `overflow`: the variance of the rewards is not
 * finite. `cut`: as `constant`, and most rollouts were cut short by a length limit. `collapsed`: as `constant`, after an update that destroyed the policy. `not_finite`: a log-prob or a gradient. `diverged`: the KL was above `guards.skip_kl`. `no_loss`: no loss applies to a token.
 * `window`: as `cut`, and most of these had no room left for a further turn. `underflow`: rewards differ by too little for single precision.
 * `credit`: the credit gives every token 0 for a reason of its own. `no_gradient`: the gradient is 0. `too_small`: every weight stayed as it was, because the update was too small for float32.
 */
export type SkipKind =
  | 'empty'
  | 'constant'
  | 'cut'
  | 'collapsed'
  | 'failed'
  | 'unplayed'
  | 'masked'
  | 'overflow'
  | 'not_finite'
  | 'diverged'
  | 'no_loss'
  | 'credit'
  | 'no_gradient'
  | 'too_small'
  | 'underflow'
  | 'window';

export interface SkipReason {
  readonly kind: SkipKind;
  /** Worded to follow "No update: ". */
  readonly text: string;
  /** The same without the setting that would help, for a reason that follows from another one. @default text */
  readonly plain?: string;
  /** True if a user's credit gave the text. @default false */
  readonly isOwn?: boolean;
}

export const SKIP_REMEDIES: Readonly<Record<SkipKind, string>> = {
  empty: 'Correct the source: its take returned no trajectories, or all of them among discarded',
  constant: 'Sample more rollouts per row (-r), raise rollouts.temperature, or use easier rows (harder ones if all are solved)',
  cut: 'Give generations more tokens (--max-tokens, rollouts.max_tokens) in a new run, or raise the limits or the turns of the environment',
  collapsed: 'Start a new run with a lower learning rate (--lr): this one continues from the collapsed policy',
  failed: 'The alarms in events.jsonl have the errors: correct their cause',
  unplayed: 'Shorten the prompts (shorter rows, fewer or shorter passages), or give the policy a larger window: the error of these rollouts says how',
  masked: 'Raise rollouts.max_tokens or the turns of the environment, or train on rollouts that were cut short (rollouts.truncated = "train")',
  overflow: 'Correct the reward, or scale it: differences of about 1 are enough',
  not_finite: 'Lower the learning rate, and check that the model itself computes finite log-probs (vf-doctor)',
  diverged: 'Lower the learning rate, take fewer updates per batch, or raise guards.skip_kl',
  underflow: 'Scale the reward: differences of about 1 are enough',
  window:
    'Give the policy a larger window (--max-model-len of its server, or a model with a larger one), or let rollouts need less of it: shorter prompts and passages, or fewer turns',
  no_loss: 'Check the roles and the weights of the losses',
  credit: 'Check the credit (algorithm.advantage.use) and what the environment gives it, or leave it out to compare the rewards of rollouts',
  no_gradient: 'Check that the loss gives tokens a gradient other than 0, and that the model itself can be trained',
  too_small: 'Raise the learning rate (--lr), or optimizer.max_grad_norm if that is what made the gradient small',
};

/** The remedy of a recorded kind, which may be of another version; null if it is unknown. */
export function skipRemedy(kind: string | null): string | null {
  return isSkipKind(kind) ? SKIP_REMEDIES[kind] : null;
}

export function isSkipKind(kind: string | null): kind is SkipKind {
  return kind !== null && Object.hasOwn(SKIP_REMEDIES, kind);
}

const REPEATED: ReadonlySet<SkipKind> = new Set(['credit', 'no_gradient', 'too_small']);

/** True if further steps of the same run would change nothing either. */
export function isRepeated(reason: SkipReason | null): boolean {
  return reason !== null && REPEATED.has(reason.kind);
}
