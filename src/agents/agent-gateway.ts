/** A server on loopback behind which the policies of many rollouts answer agents. The interface; `server/gateway` implements it. */
import type { AgentRefusal } from './agent-refusal.ts';
import type { AgentRequest, AgentTurn } from './agent-request.ts';
import type { ResponseStore } from './dialects/response-store.ts';

/** What answers the requests of one rollout, in one role. */
export interface GatewaySession {
  /** The name of the policy, which the list of models shows. */
  readonly model: string;
  /** What was answered over Responses, for sessions whose agent names the answers of one to another. @default one of its own */
  readonly responses?: ResponseStore;
  /** Throws AgentRefusal for a request that cannot be honoured, and once the rollout has ended. */
  ask(request: AgentRequest, signal: AbortSignal): Promise<readonly AgentTurn[]>;
  /** Number of tokens of the request's messages and tools. Throws AgentRefusal where nobody counts. */
  count(request: AgentRequest, signal: AbortSignal): Promise<number>;
  /** Hears of a request that cannot be read. @default nobody does */
  refused?(refusal: AgentRefusal): void;
}

export interface GatewayAddress {
  /** Ends in `/v1`. */
  readonly baseURL: string;
  readonly apiKey: string;
  /** Later requests are refused. */
  close(): void;
}

export interface AgentGateway {
  add(session: GatewaySession): GatewayAddress;
  close(): Promise<void>;
}
