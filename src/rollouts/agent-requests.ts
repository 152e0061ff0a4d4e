/** What a rollout tells of an agent's requests apart from the turns that they brought: repeats, refusals, and keys that changed nothing. */
import { AgentRefusal } from '../agents/agent-refusal.ts';
import type { AgentRequest } from '../agents/agent-request.ts';
import { AgentError } from '../core/agent-error.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import type { WireResult } from '../schemas/results.ts';
import type { AgentNode } from './agent-turns.ts';

/** Of a rollout; each is absent where there is nothing to tell. */
export interface RequestFacts {
  /** Keys of an agent's requests that changed nothing although the agent may expect it, such as `reasoning.effort`. @default none */
  readonly unhonoured?: readonly string[];
  /** Number of requests that were the same as an earlier one and got its answer. @default 0 */
  readonly repeats?: number;
  /** The number of requests that could not be honoured, and the message that the first of them got. @default none */
  readonly refused?: { readonly count: number; readonly first: string };
}

/**
 * Most times that a request gets the answer of an earlier one while no other request brings a turn. Clients try a lost connection again two to ten times, and an answer is rarely
 * lost more than once; an agent that asks the same more often is in a loop, or wants different answers.
 */
export const MOST_REPEATS = 8;

export class AgentRequests {
  readonly unhonoured = new Set<string>();
  /** The last one that was refused; null if none was. */
  lastRefused: AgentRefusal | null = null;
  /** The name in the last request that could be read; null if there was none. */
  lastModel: string | null = null;
  #refused: RequestFacts['refused'];
  /** The session and what translates for it may both tell of one. */
  readonly #told = new WeakSet<AgentRefusal>();
  #repeats = 0;
  readonly #looped = new AbortController();
  /** The repeats of each list since the last turn. */
  readonly #inARow = new Map<AgentNode, number>();

  /** Aborts with an AgentError once the agent does nothing but repeat a request. */
  get looped(): AbortSignal {
    return this.#looped.signal;
  }

  get facts(): RequestFacts {
    return {
      ...(this.unhonoured.size === 0 ? {} : { unhonoured: [...this.unhonoured] }),
      ...(this.#repeats === 0 ? {} : { repeats: this.#repeats }),
      ...(this.#refused === undefined ? {} : { refused: this.#refused }),
    };
  }

  /** Leaves out refusals because the rollout or a budget of it has ended, or because the policy failed: other fields of the rollout say so. */
  refused(refusal: AgentRefusal): void {
    if (this.#told.has(refusal)) return;
    this.#told.add(refusal);
    this.lastRefused = refusal;
    if (refusal.isOfRequest) this.#refused = { count: (this.#refused?.count ?? 0) + 1, first: this.#refused?.first ?? refusal.message };
  }

  /** Counts a request that gets the answer of an earlier one. Throws AgentRefusal for one too many, after which the rollout ends. */
  repeated(list: AgentNode): void {
    const times = (this.#inARow.get(list) ?? 0) + 1;
    this.#inARow.set(list, times);
    if (times > MOST_REPEATS) throw this.#refusedLoop();
    this.#repeats += 1;
  }

  #refusedLoop(): AgentRefusal {
    const again = `the same request came ${MOST_REPEATS + 1} times after its answer, and a request that is sent again gets the answer of the first. For different answers, ask for them with n, or give each request another seed or last message`;
    this.#looped.abort(new AgentError(`The agent was stopped in a loop: ${again}.`, { reason: 'repeats' }));
    return new AgentRefusal(400, 'messages', `messages cannot be honoured: ${again}.`);
  }

  /** A request brought a turn. */
  wentOn(): void {
    this.#inARow.clear();
  }
}

/** The turns that answer the same request for another connection, which is gone or has its answer. Another limit or seed asks for another answer. */
export function repeatedTurns(node: AgentNode, { settings }: Pick<AgentRequest, 'settings'>): AgentNode[] {
  const asked = canonicalJson(settings);
  return node.turns.filter(({ isLeaf, turn }) => isLeaf && turn!.waiting === 0 && canonicalJson(turn!.request.settings) === asked);
}

type RequestColumns = Pick<WireResult, 'unhonoured' | 'repeats' | 'refused'>;

/** The columns of a record, or the facts of its columns, which have the same names. */
export function requestFacts({ unhonoured, repeats, refused }: RequestFacts | RequestColumns): RequestFacts & RequestColumns {
  return {
    ...(unhonoured === undefined ? {} : { unhonoured: [...unhonoured] }),
    ...(repeats === undefined ? {} : { repeats }),
    ...(refused === undefined ? {} : { refused }),
  };
}
