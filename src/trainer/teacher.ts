/**
 * Interface of on-policy distillation: a teacher that says how likely the policy's own tokens are. It is asked for log-probs of token ids at given places, and for nothing
 * else: vLLM, the embedded engine, this run's own policy and a training service can each give them.
 */
import type { ForwardOptions } from './gradient-backend.ts';
import type { TokenPart } from './trajectory-branches.ts';
import type { Trajectory } from './trajectory.ts';

/** A source of log-probs of given tokens. */
export interface TokenScorer {
  /**
   * Natural-log probabilities of the targets of each sequence at temperature 1, [M_i], each given all ids before it. NaN for a token that it cannot score: an unknown
   * log-prob is never 0. Rejects if the source does not answer, after its own retries.
   */
  score(sequences: readonly TokenPart[], signal: AbortSignal): Promise<readonly Float64Array[]>;
}

export interface Teacher {
  /** An adapter of the gradient backend, for a teacher that is this run's own policy: `on` is the one that is trained, `initial` that of the start. */
  readonly scorer: TokenScorer | Extract<ForwardOptions['adapter'], 'on' | 'initial'>;
  /**
   * The ids of the teacher's prompt for a sequence, which take the place of the student's; everything after the prompt stays as it is, id by id. Null if the teacher has no
   * prompt for it, so that its tokens are not scored. @default the student's own prompt
   */
  readonly promptOf?: (trajectory: Trajectory, signal: AbortSignal) => Promise<Int32Array | null>;
}
