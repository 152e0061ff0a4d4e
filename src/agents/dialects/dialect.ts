/** An API in which agents ask: how its requests are read, and how answers, streams and refusals are written. */
import type { AgentRequest, AgentTurn } from '../agent-request.ts';
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

/** The items that a session has answered with over Responses, and the lists of its answers, for clients that name them by id. */
export interface ItemStore {
  /** The item of this id; undefined if the session has none. */
  item(id: string): Readonly<Record<string, unknown>> | undefined;
  /** The whole list behind an answer, its own items included; undefined if the session has none of this id. */
  response(id: string): readonly unknown[] | undefined;
}

export interface Dialect {
  readonly name: 'chat' | 'responses' | 'messages';
  /** Throws AgentRefusal. */
  read(body: unknown, items: ItemStore): AgentRequest;
  answer(head: AnswerHead, request: AgentRequest, turns: readonly AgentTurn[]): object;
  /** What a stream begins with. @param turns null if the policy is still sampling them */
  opening(head: AnswerHead, request: AgentRequest, turns: readonly AgentTurn[] | null): readonly StreamEvent[];
  /** The rest of a stream once the turns are there. */
  events(head: AnswerHead, request: AgentRequest, turns: readonly AgentTurn[]): readonly StreamEvent[];
  /** Keeps a silent stream open. */
  readonly keepAlive: string;
  refusal(refusal: AgentRefusal): object;
  /** The rest of a stream that failed after it had begun. */
  failure(head: AnswerHead, request: AgentRequest, refusal: AgentRefusal): readonly StreamEvent[];
}

/** An event whose data repeat its name. */
export function named(type: string, fields: object): StreamEvent {
  return { event: type, data: { type, ...fields } };
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
