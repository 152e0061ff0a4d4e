/** Rollouts in the form that the stages of a round read: the contents of a trace about one play of a prompt, in order. */
import { ConfigError } from '../core/errors.ts';
import type { MessageV1 } from '../schemas/messages-v1.ts';

/** One event of a rollout. */
export type TracedEvent =
  /** The policy wrote a turn. */
  | { readonly kind: 'turn'; readonly text: string }
  /** A search answered with these pictures, best first; null if the trace does not list them. */
  | {
      readonly kind: 'pages';
      readonly pictures: readonly (string | null)[] | null;
      /** The text that the policy saw, if pages are shown as words. */
      readonly words?: string;
    }
  /** A box gave this picture; null if the trace does not name it. */
  | { readonly kind: 'crop'; readonly picture: string | null; readonly words?: string };

/** A call of a server, for latencies. */
export interface TracedCall {
  /** `search`, or the role. */
  readonly name: string;
  readonly ms: number;
  /** Time in the queue before it; null if the trace does not say. */
  readonly waitMs: number | null;
}

export interface TracedRollout {
  /** Unique in the traces that were read. */
  readonly id: string;
  /** Id of the prompt's row. */
  readonly prompt: string;
  /** Place of the rollout among those of its prompt. */
  readonly index: number;
  readonly run: string;
  readonly question: string;
  readonly reference: string;
  readonly reward: number;
  /** Null if no judge was called for it. */
  readonly judge: number | null;
  /** True if its run calls a judge for a rollout that has a valid format and an answer. */
  readonly asksJudge: boolean;
  /** Null if it was not measured. */
  readonly ndcg: number | null;
  /** True if the format gate passed; null if the trace does not say. */
  readonly format: boolean | null;
  /** The generator's answer; null if it was not called. */
  readonly answer: string | null;
  /** True if it asked for a search, or received an answer to one. */
  readonly hasSearched: boolean;
  /** Names of the pages that it saw, in order. */
  readonly pages: readonly string[];
  /** Names of the golden pages. */
  readonly golden: readonly string[];
  /** The messages before the first turn; null if the trace does not have them. */
  readonly opening: readonly MessageV1[] | null;
  readonly calls: readonly TracedCall[];
  /** In the order of their times. */
  readonly events: readonly TracedEvent[];
}

/** Number of turns that the policy wrote. */
export function turnsOf({ events }: TracedRollout): number {
  return events.filter(({ kind }) => kind === 'turn').length;
}

/** A rollout with a judge's score. */
type JudgedRollout = TracedRollout & { readonly judge: number };

export function isJudged(rollout: TracedRollout): rollout is JudgedRollout {
  return rollout.judge !== null;
}

/** The value of a rollout when prompts are compared. */
interface ScoredRollout {
  readonly rollout: TracedRollout;
  readonly score: number;
}

/**
 * Scores by the judge: those of the rollouts of runs that called it, which phase 1 does not. Such a run does not call it for a rollout that has no valid format or
 * no answer: for its prompt that rollout counts as 0.
 */
export function scoredRollouts(rollouts: readonly TracedRollout[], measure: 'judge' | 'reward'): ScoredRollout[] {
  if (measure === 'reward') return rollouts.map((rollout) => ({ rollout, score: rollout.reward }));
  const runs = new Set(rollouts.filter(({ asksJudge }) => asksJudge).map(({ run }) => run));
  return rollouts.filter(({ run }) => runs.has(run)).map((rollout) => ({ rollout, score: rollout.judge ?? 0 }));
}

/** The NDCG of a rollout. Throws ConfigError if it was not measured. @param instead advice for that case */
export function ndcgOf({ ndcg, prompt, index }: TracedRollout, instead: string): number {
  if (ndcg !== null) return ndcg;
  throw new ConfigError(`Rollout ${index} of the prompt ${JSON.stringify(prompt)} in this trace has no metric "ndcg"; ${instead}`);
}

/** Throws ConfigError if no run called a judge. @param instead the option that takes another score */
export function assertJudged(rollouts: readonly TracedRollout[], instead: string): void {
  if (!rollouts.some(({ asksJudge }) => asksJudge)) throw new ConfigError(`No rollout of this trace has a judge score; use ${instead}`);
}
