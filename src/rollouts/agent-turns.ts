/** A turn of an agent's conversation, as it was sampled and as the agent gets it. */
import type { AgentRequest, AgentTurn } from '../agents/agent-request.ts';
import type { GraphNode } from '../agents/message-graph.ts';
import type { AnsweredTurn } from '../agents/message-key.ts';
import type { TokenSample } from '../clients/policy-client.ts';
import type { Message, PlacedImage, ToolCall } from '../core/message.ts';
import { Random } from '../core/random.ts';
import type { Sampling } from '../core/sampling.ts';
import { splitThoughts } from '../core/text-outside-thoughts.ts';
import type { ToolCallAttempt } from '../core/tool-calls.ts';
import type { SessionTurn } from './agent-session.ts';
import { calledAs } from './conversation-messages.ts';
import type { PlayedTurn } from './conversation-turns.ts';
import type { Generation } from './rollout.ts';

/** A turn as it was sampled, with the tokens that stand before it. */
export interface SampledAgentTurn extends AgentTurn, AnsweredTurn {
  readonly toolCalls: readonly ToolCall[];
  /** What later prompts read. */
  readonly played: PlayedTurn;
  /** The turn on record: its text without its calls, and its calls once. */
  readonly recorded: Message;
  /** The text of the turn as it is scored, with what the template opened it with. */
  readonly text: string;
  readonly generation: Generation;
  /** Null in a chat over messages. */
  readonly tokens: TurnTokens | null;
}

export type AgentNode = GraphNode<SessionTurn>;

export interface TurnTokens {
  /** What stands between the turn before and this one; the whole prompt if there is none. */
  readonly given: Int32Array;
  readonly images: readonly PlacedImage[];
  readonly sample: TokenSample;
  readonly version: number;
  /** The node of the turn that it goes on from; null if its prompt was rendered anew. */
  readonly before: AgentNode | null;
  /** Number of tokens up to its end. */
  readonly length: number;
}

export interface SampleOptions {
  /** Number of turns before it that answer the same list. */
  readonly ordinal: number;
  /** Number of answers that are wanted next to it and have a lower number: 0 for the first of `n`. */
  readonly choice: number;
  readonly sampling: Sampling;
  /** The run's settings hold, as in training. */
  readonly isTrained: boolean;
  /** The rest of the rollout's budget of tokens. */
  readonly mostTokens: number;
  readonly signal: AbortSignal;
}

/** Samples the next turn at a place of the tree: by token ids, or over an API of messages. */
export interface TurnSampler {
  sample(place: AgentNode, options: SampleOptions): Promise<SampledAgentTurn>;
  /** Number of tokens of a request's messages and tools, as a first prompt. Throws AgentRefusal where nobody counts. */
  count(request: AgentRequest, sampling: Sampling, signal: AbortSignal): Promise<number>;
}

/** The nodes from the first message on. */
export function pathOf(node: AgentNode): readonly AgentNode[] {
  const path: AgentNode[] = [];
  for (let at: AgentNode | null = node; at !== null && at.parent !== null; at = at.parent) path.push(at);
  return path.toReversed();
}

/**
 * The text of a turn as an agent gets it: without the thoughts at its beginning, their tags and the stop string that ended it.
 * @param mayBeOpen the chat template of a server may have opened thoughts, which it does not tell. @default false
 */
export function said(
  text: string,
  stopReason: string | number | null,
  { mayBeOpen = false }: { readonly mayBeOpen?: boolean } = {},
): Pick<AgentTurn, 'content' | 'reasoning' | 'stopSequence'> {
  const written = typeof stopReason === 'string' ? withoutStop(text, stopReason) : text;
  const { thoughts, rest } = splitThoughts(written, { mayBeOpen });
  return {
    content: rest,
    ...(thoughts.trim() === '' ? {} : { reasoning: thoughts }),
    ...(written === text ? {} : { stopSequence: stopReason as string }),
  };
}

/** The text as it is if the stop string does not end it. */
export function withoutStop(text: string, stop: string): string {
  return text.endsWith(stop) ? text.slice(0, text.length - stop.length) : text;
}

/**
 * The id of a call, unique in the rollout: nine letters and digits, as the strictest templates require. It depends on the messages before it, not on which of two requests
 * arrived first.
 */
export function agentCallId(place: AgentNode, ordinal: number, index: number): string {
  const random = Random.fromSeed(0).fork(`${place.path} ${ordinal} ${index}`);
  return `c${(random.float() * 36 ** 8).toString(36).split('.')[0]!.padStart(8, '0')}`;
}

/** The calls as the agent gets them. One without a readable name cannot be passed on, and the whole turn stays text, as servers do. */
export function agentCalls(attempts: readonly ToolCallAttempt[], id: (index: number) => string): readonly ToolCall[] {
  const calls = attempts.map((attempt, i) => calledAs({ ...attempt, id: id(i) }));
  return calls.every(({ name }) => name !== '') ? calls : [];
}
