/** An API in which agents ask: how its requests are read, and how answers, streams and refusals are written. */
import type { AgentRequest, AgentTurn } from '../agent-request.ts';
import type { ItemStore } from './responses-request.ts';
import type { AgentRefusal } from '../agent-refusal.ts';

/** What an answer is called. */
export interface AnswerHead {
  /** Unique in the session, without a prefix of the dialect. */
  readonly id: string;
  /** Seconds since the epoch. */
  readonly created: number;
  /** The name that the agent asked for. */
  readonly model: string;
}

/** An event of a stream: its name, if the dialect names events, and its data. A string is written as it is. */
export interface StreamEvent {
  readonly event?: string;
  readonly data: object | string;
}

export interface Dialect {
  readonly name: 'chat' | 'responses' | 'messages';
  /** Throws AgentRefusal. */
  read(body: unknown, items: ItemStore): AgentRequest;
  answer(head: AnswerHead, request: AgentRequest, turns: readonly AgentTurn[]): object;
  /** What a stream begins with, before the policy has written anything. */
  opening(head: AnswerHead, request: AgentRequest): readonly StreamEvent[];
  /** The rest of a stream once the turns are there. */
  events(head: AnswerHead, request: AgentRequest, turns: readonly AgentTurn[]): readonly StreamEvent[];
  /** Keeps a silent stream open. */
  readonly keepAlive: string;
  refusal(refusal: AgentRefusal): object;
  /** The rest of a stream that failed after it had begun. */
  failure(head: AnswerHead, request: AgentRequest, refusal: AgentRefusal): readonly StreamEvent[];
}

/** The `type` of an error by its status, in OpenAI's dialects. */
export function openaiRefusal({ status, param, message, code }: AgentRefusal): object {
  return { error: { message, type: TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error'), param, code } };
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};
