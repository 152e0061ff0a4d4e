/** What an agent asks the policy and what it gets, whatever the API in which it asked. */
import type { Message, ToolCall } from '../core/message.ts';
import type { Usage } from '../core/sampling.ts';
import type { ToolSpec } from '../core/tool-calls.ts';

/** Whether a turn may, must or must not call a tool; a name: it must call that one. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** What a request says about sampling. Absent: the agent left it to the server. */
export interface AgentSettings {
  readonly temperature?: number;
  readonly topP?: number;
  /** Most new tokens, at least 1. */
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  /** Number of answers to the same messages, at least 1. @default 1 */
  readonly n?: number;
  /** Number of likeliest tokens to list for each sampled one, from 0 up. @default no log-probs */
  readonly logProbs?: number;
  /** @default 'auto' */
  readonly toolChoice?: ToolChoice;
  /** False: at most one call per turn. @default true */
  readonly parallelToolCalls?: boolean;
  /** The answer must be JSON: of any form (null), or of this JSON Schema. @default any text */
  readonly jsonSchema?: Readonly<Record<string, unknown>> | null;
  /** Sampling fields that vLLM knows and the dialects do not have, by their names there: `top_k`, `min_p`, … @default none */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** How a request calls what a policy may be unable to honour, for refusals. */
export interface SettingKeys {
  readonly messages: string;
  readonly tools: string;
  readonly toolChoice: string;
  readonly jsonSchema: string;
  readonly logProbs: string;
  readonly topLogProbs: string;
  readonly seed: string;
}

/** Those of Chat Completions. */
export const CHAT_KEYS: SettingKeys = {
  messages: 'messages',
  tools: 'tools',
  toolChoice: 'tool_choice',
  jsonSchema: 'response_format',
  logProbs: 'logprobs',
  topLogProbs: 'top_logprobs',
  seed: 'seed',
};

export interface NamespacedTool {
  readonly namespace: string;
  readonly name: string;
}

export interface AgentRequest {
  /** The name that the agent asked for. */
  readonly model: string;
  /** The whole conversation, as the agent tells it. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** Tools of a namespace, by the name under which they are offered; calls are answered with both parts of it. @default none */
  readonly namespaced?: ReadonlyMap<string, NamespacedTool>;
  readonly settings: AgentSettings;
  /** Where they differ from those of Chat Completions. @default all are the same */
  readonly keys?: Partial<SettingKeys>;
  readonly isStreamed: boolean;
  /** A stream ends with the counts of tokens, in a dialect where that is asked for. @default false */
  readonly countsUsage?: boolean;
  /** Keys of the request that the answer repeats, as they were sent, in a dialect where it does. @default none */
  readonly repeated?: Readonly<Record<string, unknown>>;
  /** Keys that change nothing here although the agent may expect it, such as `reasoning.effort`; the run says so. */
  readonly unhonoured: readonly string[];
}

/** One answer of the policy. */
export interface AgentTurn {
  /** What it said, without its thoughts and its calls. */
  readonly content: string;
  /** Its thoughts, without their tags. @default none */
  readonly reasoning?: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finish: 'stop' | 'length';
  /** The stop string that ended it. @default none did */
  readonly stopSequence?: string;
  readonly usage: Usage;
  /** Sampled tokens of its thoughts, with their tags and the blanks after them. @default unknown */
  readonly reasoningTokens?: number;
  /** Every token that was sampled, those of thoughts and calls included. @default a request for log-probs is refused */
  readonly logProbs?: readonly AgentLogProb[];
}

export interface AgentLogProb {
  readonly text: string;
  /** Natural logarithm, at most 0. */
  readonly logProb: number;
  /** The likeliest tokens in its place. @default a request for them is refused */
  readonly top?: readonly Pick<AgentLogProb, 'text' | 'logProb'>[];
}
