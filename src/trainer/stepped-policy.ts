/** What a trainer of single steps takes and reports. */
import type { Trajectory } from './trajectory.ts';

export interface GenerateOptions {
  /** Rollouts of each row, from 1. @default rollouts.rollouts_per_example */
  readonly rolloutsPerRow?: number;
  /** New tokens per generation, from 1. @default rollouts.max_tokens, else the environment's limit */
  readonly maxTokens?: number;
}

/** What an update of the policy reports. */
export interface UpdatedPolicy {
  /** Mean over the optimiser steps; null if none changed the weights. */
  readonly loss: number | null;
  /** Mean KL per token as `algorithm.kl` estimates it, in nats; null without such a term. */
  readonly klDiv: number | null;
  /** Mean reward of the finished trajectories; null if none finished. */
  readonly avgReward: number | null;
  /** The weight of the KL penalty, `algorithm.kl.coefficient`. */
  readonly beta: number;
  /** Why no weight changed; null if one did. */
  readonly unchanged: string | null;
  /** All metrics of the update by name; docs/metrics.md defines them. */
  readonly metrics: Readonly<Record<string, number | null>>;
}

export interface SteppedPolicy extends UpdatedPolicy {
  /** Mean number of sampled tokens of a finished trajectory. */
  readonly avgTokens: number | null;
  /** Share of the finished trajectories that searched; null if the environment's rubric has neither the metric `searched` nor `searches`. */
  readonly searchTrajectories: number | null;
  readonly trajectories: readonly Trajectory[];
}
