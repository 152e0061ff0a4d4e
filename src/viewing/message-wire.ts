/** Messages, turns and branches of a rollout: the part of `view-wire.ts` about what was said. */
import type { TurnFigures } from './credit-wire.ts';

export interface Message extends Pick<Part, 'content' | 'tool_calls'> {
  readonly role: string;
}

export type Content =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly sha256: string; readonly width: number; readonly height: number };

export interface Part extends TurnFigures {
  readonly kind: string;
  readonly content: readonly Content[];
  readonly tool_calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  /** Thoughts that a server returned outside the text; absent if there are none. */
  readonly reasoning?: string;
}

export interface Asked extends Pick<Part, 'reasoning'> {
  readonly role: string;
  readonly model: string;
  readonly messages: readonly Message[];
  readonly text: string;
  readonly ms: number;
  /** 0 if the reply came from the cache. */
  readonly attempts: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
}

/** A sequence of a rollout of an agent. */
export interface RolloutBranch {
  /** The index of the branch that holds the turns with which its prompt begins; null if it shares none. */
  readonly parent: number | null;
  /** Where and why it left another: the number of messages in common, and what differs. Null for the first, and if the file does not say. */
  readonly fork: { readonly kind: string; readonly at: number; readonly difference: string } | null;
  readonly role: string | null;
  /** Its own; null if it has the rollout's. */
  readonly reward: number | null;
  readonly turns: number;
  /** All tokens of the sequence, and those sampled in it; null if the policy gave none. */
  readonly tokens: number | null;
  readonly sampled: number | null;
  /** Its prompt begins with the first messages of an earlier branch, prompt and parts; null if `prompt` is all of it. */
  readonly begins_with: { readonly branch: number; readonly messages: number } | null;
  readonly prompt: readonly Message[];
  readonly parts: readonly Part[];
  /** Names of the tools that it was offered; null if they are those of the first. */
  readonly tools: readonly string[] | null;
}
