/** One agent's door to the policy: its address, its key, and its requests that are being answered. */
import type { GatewaySession } from '../../agents/agent-gateway.ts';
import type { AgentRequest, AgentTurn } from '../../agents/agent-request.ts';
import { AgentRefusal } from '../../agents/agent-refusal.ts';
import { ResponseStore } from '../../agents/dialects/response-store.ts';
import { eitherSignal, untilAborted } from '../../core/abort.ts';
import { type bodyCache, KnownBodies } from './known-bodies.ts';

/** Requests of a session that are answered at a time. Agents ask for a few dozen sub-agents at once at most. */
const MOST_REQUESTS = 256;

export class OpenSession {
  readonly model: string;
  readonly #answers: GatewaySession;
  readonly id: string;
  readonly apiKey: string;
  /** Seconds since the epoch. */
  readonly created = Math.floor(Date.now() / 1000);
  readonly responses: ResponseStore;
  readonly bodies: KnownBodies;
  readonly #ended = new AbortController();
  #running = 0;

  constructor(
    answers: GatewaySession,
    { id, apiKey, bodies }: { readonly id: string; readonly apiKey: string; readonly bodies: ReturnType<typeof bodyCache> },
  ) {
    this.model = answers.model;
    this.responses = answers.responses ?? new ResponseStore();
    this.#answers = answers;
    this.id = id;
    this.apiKey = apiKey;
    this.bodies = new KnownBodies(bodies);
  }

  /** Tells the rollout of a request that never gets as far as the policy. Returns the error. */
  refused(error: unknown): unknown {
    if (error instanceof AgentRefusal) this.#answers.refused?.(error);
    return error;
  }

  ask(request: AgentRequest, signal: AbortSignal): Promise<readonly AgentTurn[]> {
    return this.#run(signal, (either) => this.#answers.ask(request, either));
  }

  count(request: AgentRequest, signal: AbortSignal): Promise<number> {
    return this.#run(signal, (either) => this.#answers.count(request, either));
  }

  /** Requests that are being answered are refused. */
  end(refusal: AgentRefusal): void {
    this.#ended.abort(refusal);
    this.bodies.forget();
  }

  async #run<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#running >= MOST_REQUESTS)
      throw new AgentRefusal(429, null, `The session answers ${MOST_REQUESTS} requests at a time; wait until one of them is answered.`);
    this.#running += 1;
    using either = eitherSignal(signal, this.#ended.signal);
    try {
      return await untilAborted(work(either.signal), either.signal);
    } finally {
      this.#running -= 1;
    }
  }
}
