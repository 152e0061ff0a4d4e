/** The outcome of a proposal: the task that it brings, or the reason why it brings none; and its reward once others have tried the task. */
import type { Trajectory } from 'vf-search/trainer';
import type { BonusMeasures } from './bonuses.ts';
import type { ProgramBuffer } from './buffer.ts';
import type { TaskKind, TaskRecord } from './records.ts';
import { learnability, proposeReward } from './rewards.ts';

export type ProposalResult =
  | { readonly kind: 'valid'; readonly record: TaskRecord }
  /** `reason`: one of a few words that are counted, such as `syntax` or `banned`. */
  | { readonly kind: 'invalid'; readonly reason: string }
  /** A held-out program: it is refused, and never trained on. */
  | { readonly kind: 'held_out' }
  /** The rollout failed. */
  | { readonly kind: 'failed' };

export interface Proposal {
  /** Identifies its row, and the rows of its probes. */
  readonly id: string;
  readonly kind: TaskKind;
  /** Null for a program that no policy proposed. */
  readonly trajectory: Trajectory | null;
  readonly result: ProposalResult;
  /** The measures of a valid proposal, if proposals get bonuses. */
  readonly measures?: BonusMeasures;
}

/** A proposal with the results of its probes. */
export interface ProbedProposal extends Proposal {
  readonly result: Extract<ProposalResult, { kind: 'valid' }>;
  /** Correctness of each finished probe, [n], each in [0, 1]; empty if all of them failed. */
  readonly accuracies: readonly number[];
  /** The program was proposed before. */
  readonly isRepeated: boolean;
}

export interface PayOptions {
  /** `azr`: Absolute Zero's reward. `crsp`: the learnability alone. */
  readonly rewards: 'azr' | 'crsp';
  /** A repeated program counts as unlearnable. */
  readonly novelty: boolean;
}

/** The reward of a probed proposal; null if no probe was finished, because its value is then unknown. */
export function probedReward(
  { accuracies, isRepeated }: Pick<ProbedProposal, 'accuracies' | 'isRepeated'>,
  { rewards, novelty }: PayOptions,
): number | null {
  if (accuracies.length === 0) return null;
  const accuracy = novelty && isRepeated ? 1 : mean(accuracies);
  return rewards === 'azr' ? proposeReward({ isValid: true, accuracy }) : learnability([accuracy]);
}

/** The reward of a proposal without a valid program, in both rewards: the format comes first. */
export const INVALID_REWARD = proposeReward({ isValid: false, accuracy: 0 });

/** Counts the programs in their order, so that of two equal ones in a step the second counts as a repetition. */
export function countRepeats(buffer: ProgramBuffer, records: readonly TaskRecord[]): boolean[] {
  return records.map((record) => {
    const isRepeated = buffer.seen(record) > 0;
    buffer.count(record);
    return isRepeated;
  });
}

/** The mean; NaN for an empty list. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
