/** The sessions of `vf-serve gateway`, within bounds: a trainer opens them, agents play them, and what was played is kept until the trainer deletes it. */
import { randomUUID } from 'node:crypto';
import type { AgentGateway } from '../../agents/agent-gateway.ts';
import type { PolicyClient } from '../../clients/policy-client.ts';
import type { Sampling } from '../../core/sampling.ts';
import type { SessionRequest } from '../../schemas/gateway/session-requests.ts';
import { samplingColumns } from '../../schemas/sampling-columns.ts';
import { EnvironmentRefusal } from '../environment/environment-refusal.ts';
import { servedRollout } from '../environment/served-rollout.ts';
import { RolloutSession } from './rollout-session.ts';

interface ReadSampling {
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
}

export interface RolloutSessionsOptions {
  readonly client: PolicyClient;
  /** Fields of a request over those of the server. Throws ConfigError. */
  readonly readSampling: (fields: Readonly<Record<string, unknown>>) => ReadSampling | Promise<ReadSampling>;
  /** Sessions that are held at a time, ended ones included. */
  readonly maxSessions: number;
  /** The longest time from the opening of a session to its end. */
  readonly timeoutMs: number;
  readonly seed: number;
  readonly redact: (text: string) => string;
}

export class RolloutSessions {
  readonly #options: RolloutSessionsOptions;
  readonly #gateway: AgentGateway;
  readonly #sessions = new Map<string, RolloutSession>();

  constructor(gateway: AgentGateway, options: RolloutSessionsOptions) {
    this.#gateway = gateway;
    this.#options = options;
  }

  async open(request: SessionRequest): Promise<object> {
    const { client, readSampling, maxSessions, timeoutMs, seed } = this.#options;
    const most = timeoutMs / 1000;
    const { timeout = most } = request;
    if (timeout > most) throw new EnvironmentRefusal(422, `timeout must be at most ${most} seconds (--session-timeout), got ${timeout}.`);
    const sampling = await readSampling(request.sampling ?? {});
    this.#makeRoom(maxSessions);
    const session = new RolloutSession({ id: randomUUID(), request, client, gateway: this.#gateway, ...sampling, timeoutMs: timeout * 1000, seed });
    this.#sessions.set(session.id, session);
    try {
      const { name, baseURL, apiKey } = await session.address();
      return { session_id: session.id, model: name, base_url: baseURL, api_key: apiKey };
    } catch (error) {
      this.#sessions.delete(session.id);
      throw new EnvironmentRefusal(502, `The policy cannot play: ${this.#options.redact((error as Error).message)}`, { cause: error });
    }
  }

  /** Its rollout so far while the agent may ask. */
  view(id: string): object {
    return this.#written(this.#session(id));
  }

  async end(id: string): Promise<object> {
    const session = this.#session(id);
    await session.end();
    return this.#written(session);
  }

  /** Ends it, if that has not happened yet. A later reward takes the place of an earlier one. */
  async reward(id: string, reward: number): Promise<object> {
    const session = this.#session(id);
    const { error } = await session.end();
    if (error !== null)
      throw new EnvironmentRefusal(409, `The rollout failed (${error.type}: ${this.#options.redact(error.message)}), so it has no reward.`);
    session.reward = reward;
    return this.#written(session);
  }

  async delete(id: string): Promise<void> {
    const session = this.#session(id);
    this.#sessions.delete(id);
    await session.drop();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.keys()].map((id) => this.delete(id)));
  }

  #session(id: string): RolloutSession {
    const session = this.#sessions.get(id);
    if (session === undefined)
      throw new EnvironmentRefusal(
        404,
        'There is no session with this id: it was deleted, it made room for another one, or the server was started again.',
      );
    return session;
  }

  /** The oldest that has ended gives its place. */
  #makeRoom(most: number): void {
    if (this.#sessions.size < most) return;
    const ended = [...this.#sessions.values()].find(({ isOpen }) => !isOpen);
    if (ended === undefined)
      throw new EnvironmentRefusal(503, `${most} sessions are open, which is the most (--max-sessions). End one, or try again later.`);
    this.#sessions.delete(ended.id);
  }

  #written({ id, isOpen, rollout, sampling, maxTokens }: RolloutSession): object {
    const { client, redact } = this.#options;
    const status = isOpen ? 'open' : 'ended';
    if (rollout === null) return { session_id: id, status, rollout };
    const columns = samplingColumns({ ...sampling, maxTokens });
    const { repeats, refused } = rollout;
    return {
      session_id: id,
      status,
      ...(repeats === undefined ? {} : { repeats }),
      ...(refused === undefined ? {} : { refused: { ...refused, first: redact(refused.first) } }),
      rollout: servedRollout(rollout, { capabilities: client.capabilities, sampling: columns, redact, withMessages: true }),
    };
  }
}
