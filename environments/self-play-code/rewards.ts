/**
 * The arithmetic of the rewards, pure: Absolute Zero's (rewards/reward_managers.py), and those of Cognition via Rewarded Self-Play with its schedule.
 * Numbers in [0, 1] are checked, because the policy would be trained on a reward from a wrong number.
 */
import { RewardError } from 'vf-search';

/** The reward of a reply in a wrong format, and of a proposal whose program is not valid. */
const MALFORMED = -1;
/** The reward of a wrong solution, and of a proposal from which nothing can be learned. */
const WORTHLESS = -0.5;

export interface ProposalOutcome {
  /** The proposal has the right format, and its program is valid. */
  readonly isValid: boolean;
  /** Mean correctness of the solver's attempts, in [0, 1]. */
  readonly accuracy: number;
}

/**
 * Absolute Zero's reward of a proposal: -1 if it is not valid, -0.5 if the solver always or never succeeds, else 1 - accuracy.
 * @example proposeReward({ isValid: true, accuracy: 1 / 8 }) // 0.875
 */
export function proposeReward({ isValid, accuracy }: ProposalOutcome): number {
  if (!isValid) return MALFORMED;
  const share = inRange('accuracy', accuracy);
  return share > 0 && share < 1 ? 1 - share : WORTHLESS;
}

export interface SolutionOutcome {
  /** The reply has the right format. */
  readonly isWellFormed: boolean;
  /** Correctness, in [0, 1]. */
  readonly accuracy: number;
}

/** Absolute Zero's reward of a solution: -1 in a wrong format, -0.5 if it is wrong, else its correctness. */
export function solveReward({ isWellFormed, accuracy }: SolutionOutcome): number {
  if (!isWellFormed) return MALFORMED;
  return inRange('accuracy', accuracy) > 0 ? accuracy : WORTHLESS;
}

/**
 * The amount that can be learned from a task: 0 if the mean of the solver's rewards is 0 or 1, else 1 - mean.
 * @param solverRewards Correctness of each attempt, [n], each in [0, 1]. Throws RewardError if there is none.
 */
export function learnability(solverRewards: readonly number[]): number {
  if (solverRewards.length === 0) throw new RewardError('The learnability of a task needs at least one attempt of the solver, and got none.');
  const mean = solverRewards.reduce((sum, reward) => sum + inRange('solver reward', reward), 0) / solverRewards.length;
  return mean > 0 && mean < 1 ? 1 - mean : 0;
}

export interface Alphas {
  /** Share of correctness in the solver's reward; the rest is length. */
  readonly solve: number;
  /** Share of agreement in the critic's reward; the rest is creativity. */
  readonly critique: number;
}

/** The points at which the schedule turns, as shares of all steps. */
const WARM_UP = 0.2;
const TURN = 0.6;

/**
 * The coupled schedule of the seed: constant for the first fifth of the steps, then correctness and agreement gain weight. Steps beyond the last stay at its
 * values.
 * @param step From 0. Throws RewardError if it is negative.
 * @param totalSteps Throws RewardError unless it is positive.
 */
export function alphaSchedule(step: number, totalSteps: number): Alphas {
  if (!(totalSteps > 0 && Number.isFinite(totalSteps)))
    throw new RewardError(`Expected the total number of steps to be positive, got ${totalSteps}.`);
  if (!(step >= 0)) throw new RewardError(`Expected the step to be 0 or more, got ${step}.`);
  if (step < WARM_UP * totalSteps) return { solve: 0.3, critique: 0.1 };
  const progress = (from: number) => Math.min(1, (step - from * totalSteps) / (0.4 * totalSteps));
  if (step < TURN * totalSteps) return { solve: 0.3 + 0.5 * progress(WARM_UP), critique: 0.1 + 0.5 * progress(WARM_UP) };
  return { solve: 0.8 + 0.15 * progress(TURN), critique: 0.6 + 0.2 * progress(TURN) };
}

export interface LengthRewardOptions {
  /** Tokens of a thought that is worth 1; more than 1. @default 2048 */
  readonly maxLength?: number;
  /** Tokens from which on a thought loses value; more than 0. @default 4096 */
  readonly penaltyThreshold?: number;
}

/**
 * The reward of a thought's length, in [0, 1]: ln(tokens) / ln(maxLength), at most 1, and beyond the threshold times
 * exp(-(tokens - threshold) / threshold).
 * @param tokens Number of tokens of the thought, or of the reply if it has none. Throws RewardError if it is negative.
 * @example lengthReward(100) // 0.604
 */
export function lengthReward(tokens: number, { maxLength = 2048, penaltyThreshold = 4096 }: LengthRewardOptions = {}): number {
  if (!(tokens >= 0 && Number.isFinite(tokens))) throw new RewardError(`Expected a number of tokens, got ${tokens}.`);
  if (!(maxLength > 1)) throw new RewardError(`Expected max_length to be more than 1, got ${maxLength}.`);
  if (!(penaltyThreshold > 0)) throw new RewardError(`Expected penalty_threshold to be positive, got ${penaltyThreshold}.`);
  if (tokens === 0) return 0;
  const reward = Math.min(1, Math.log(tokens) / Math.log(maxLength));
  return tokens > penaltyThreshold ? reward * Math.exp(-(tokens - penaltyThreshold) / penaltyThreshold) : reward;
}

/** The parts of the rewards of a solution and of its critique, each in [0, 1]. */
export interface RewardParts {
  readonly correctness: number;
  readonly length: number;
  readonly agreement: number;
  readonly creativity: number;
}

/** alpha * correctness + (1 - alpha) * length, in [0, 1]. Throws RewardError for a number outside. */
export function integratedSolveReward({ correctness, length }: Pick<RewardParts, 'correctness' | 'length'>, alpha: number): number {
  return mixed(inRange('alpha', alpha), inRange('correctness', correctness), inRange('length', length));
}

/** alpha * agreement + (1 - alpha) * creativity, in [0, 1]. Throws RewardError for a number outside. */
export function integratedCritiqueReward({ agreement, creativity }: Pick<RewardParts, 'agreement' | 'creativity'>, alpha: number): number {
  return mixed(inRange('alpha', alpha), inRange('agreement', agreement), inRange('creativity', creativity));
}

function mixed(alpha: number, first: number, second: number): number {
  return Math.min(1, alpha * first + (1 - alpha) * second);
}

function inRange(name: string, value: number): number {
  if (value >= 0 && value <= 1) return value;
  throw new RewardError(`Expected ${name} to be a number from 0 to 1, got ${value}.`);
}
