/**
 * The answer of a run: deltas that build its traces (`verifiers.v1.serve.delta`), then a reply with the episode's head. It is the smallest part of the records of
 * verifiers 0.4.0 that holds all known facts; its readers fill in the rest.
 */

export interface WireTask {
  /** Name of the class of tasks. */
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** The id of the row: two runs of one row have the same key. */
  readonly key: string;
  readonly hash: string;
}

interface WireToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface WireMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly tool_calls?: readonly WireToolCall[];
  readonly tool_call_id?: string;
}

export interface WireTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** A message and the tokens that it adds. Those of all nodes from the root to a leaf are one training sample. */
export interface WireNode {
  readonly parent: number | null;
  readonly message: WireMessage;
  /** True if a call of the policy wrote it. */
  readonly sampled: boolean;
  /** [T] */
  readonly token_ids: readonly number[];
  /** True for tokens that the policy sampled. [T] */
  readonly mask: readonly boolean[];
  /** Natural-log probabilities of the sampled tokens only. */
  readonly logprobs: readonly number[];
  /** On the root: the tools that the policy was offered. */
  readonly tools?: readonly WireTool[];
}

export interface WireCall {
  /** Index of the node that it wrote. */
  readonly node: number;
  readonly model: string;
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly finish_reason: 'stop' | 'length' | 'tool_calls';
  readonly usage: {
    /** Without the tokens of the prefix cache. */
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly cached_input_tokens: number | null;
  };
}

interface WireError {
  readonly type: string;
  readonly message: string;
}

/** In seconds since the epoch. */
interface WireSpan {
  readonly start: number;
  readonly end: number;
}

/** Fields of a trace that replace those of an earlier delta. */
export interface WireTraceFields {
  readonly agent: { readonly config: Readonly<Record<string, unknown>>; readonly name: string; readonly trainable: boolean };
  readonly tools: readonly WireTool[];
  /** Null if nothing was scored. */
  readonly rewards: Readonly<Record<string, { readonly score: number; readonly weight: number } | null>>;
  readonly metrics: Readonly<Record<string, number | null>>;
  readonly info: Readonly<Record<string, unknown>>;
  readonly is_completed: boolean;
  readonly ok: boolean;
  readonly stop_condition: string;
  readonly is_timeout: boolean;
  readonly timing: {
    readonly start: number;
    readonly setup: WireSpan;
    readonly agent: WireSpan & { readonly model: { readonly duration: number }; readonly harness: { readonly duration: number } };
    readonly scoring: WireSpan;
  };
}

export interface WireDelta {
  /** Id of the trace. */
  readonly trace: string;
  /** Present on the first delta of a trace. */
  readonly open: {
    readonly version: 1;
    readonly id: string;
    readonly verifiers: { readonly version: string; readonly commit: null };
    readonly task: WireTask;
  };
  readonly nodes: readonly WireNode[];
  readonly calls: readonly WireCall[];
  readonly errors: readonly WireError[];
  readonly set: WireTraceFields;
}

/** The client compares the numbers of nodes and calls with those that arrived. */
export interface WireRunReply {
  readonly success: true;
  readonly error: null;
  readonly head: {
    readonly id: string;
    readonly env: { readonly id: string };
    readonly task: WireTask;
    readonly ok: boolean;
    readonly is_timeout: boolean;
    /** Errors of the episode as a whole; those of a rollout are on its trace. */
    readonly errors: readonly WireError[];
  };
  readonly traces: readonly [{ readonly id: string; readonly nodes: number; readonly calls: number }];
}
