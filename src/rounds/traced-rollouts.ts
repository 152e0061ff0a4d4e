/** Rollouts as the stages of a round read them: what a trace says of one play of a prompt, in order. */
import type { MessageV1 } from '../schemas/messages-v1.ts';

/** One thing that happened in a rollout. */
export type TracedEvent =
  /** The policy wrote a turn. */
  | { readonly kind: 'turn'; readonly turn: number; readonly text: string }
  /** A search answered with these pictures, best first; null where the trace does not list them. */
  | {
      readonly kind: 'pages';
      readonly pictures: readonly (string | null)[] | null;
      /** What the policy saw, where pages are shown as words. */
      readonly words?: string;
    }
  /** A box gave this picture; null where the trace does not name it. */
  | { readonly kind: 'crop'; readonly picture: string | null; readonly words?: string };

/** A call of a server, for latencies. */
export interface TracedCall {
  /** `search`, or the role. */
  readonly name: string;
  readonly ms: number;
  /** Time before it, in the queue; null where the trace does not say. */
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
  readonly judge: number;
  readonly ndcg: number;
  /** Whether the format gate passed; null where the trace does not say. */
  readonly format: boolean | null;
  /** The generator's answer; null if it was not asked. */
  readonly answer: string | null;
  /** Names of the pages that it saw, in order. */
  readonly pages: readonly string[];
  /** Names of the golden pages. */
  readonly golden: readonly string[];
  /** The messages before the first turn; null where the trace does not have them. */
  readonly opening: readonly MessageV1[] | null;
  readonly calls: readonly TracedCall[];
  /** In the order of their times. */
  readonly events: readonly TracedEvent[];
}

/** Number of turns that the policy wrote. */
export function turnsOf({ events }: TracedRollout): number {
  return events.filter(({ kind }) => kind === 'turn').length;
}
