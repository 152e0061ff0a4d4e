/** Rollouts as the stages of a round read them: what a trace says of one play of a prompt, in order. */

/** One thing that happened in a rollout. */
export type TracedEvent =
  /** The policy wrote a turn. */
  | { readonly kind: 'turn'; readonly turn: number; readonly text: string }
  /** A search answered with these pictures, best first; null where the trace does not list them. */
  | { readonly kind: 'pages'; readonly pictures: readonly (string | null)[] | null }
  /** A box gave this picture; null where the trace does not name it. */
  | { readonly kind: 'crop'; readonly picture: string | null };

export interface TracedRollout {
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
  /** In the order of their times. */
  readonly events: readonly TracedEvent[];
}

/** Number of turns that the policy wrote. */
export function turnsOf({ events }: TracedRollout): number {
  return events.filter(({ kind }) => kind === 'turn').length;
}
