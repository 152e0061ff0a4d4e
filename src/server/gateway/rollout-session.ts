/** A rollout that an agent elsewhere plays through the gateway: it lasts until somebody ends it, or until its deadline. */
import type { AgentGateway } from '../../agents/agent-gateway.ts';
import type { PolicyClient, PolicyLease } from '../../clients/policy-client.ts';
import { openUntilAborted, untilAborted } from '../../core/abort.ts';
import { AgentEnv } from '../../core/agent-env.ts';
import { Dataset, type Row } from '../../core/dataset.ts';
import { Disposers } from '../../core/disposers.ts';
import type { AgentPolicy } from '../../core/environment.ts';
import { TimeoutError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import { Rubric } from '../../core/rubric.ts';
import type { Sampling } from '../../core/sampling.ts';
import { playAgent } from '../../rollouts/play-agent.ts';
import type { Played, Rollout } from '../../rollouts/rollout.ts';
import type { SessionRequest } from '../../schemas/gateway/session-requests.ts';

export interface RolloutSessionOptions {
  readonly id: string;
  readonly request: SessionRequest;
  readonly client: PolicyClient;
  readonly gateway: AgentGateway;
  readonly sampling: Sampling;
  readonly maxTokens: number | null;
  readonly timeoutMs: number;
  readonly seed: number;
}

export class RolloutSession {
  readonly id: string;
  readonly sampling: RolloutSessionOptions['sampling'];
  readonly maxTokens: number | null;
  /** What it was worth; null until somebody says. */
  reward: number | null = null;
  readonly #options: RolloutSessionOptions;
  readonly #row: Row;
  readonly #opened = Promise.withResolvers<Pick<AgentPolicy, 'name' | 'baseURL' | 'apiKey'>>();
  readonly #asked = Promise.withResolvers<void>();
  readonly #stopped = new AbortController();
  readonly #playing: Promise<Played>;
  #played: Played | null = null;
  #soFar: (() => Played) | null = null;

  constructor(options: RolloutSessionOptions) {
    const { id, request, timeoutMs } = options;
    this.id = id;
    this.sampling = options.sampling;
    this.maxTokens = options.maxTokens;
    this.#options = options;
    this.#row = { exampleId: request.example_id ?? id, prompt: [{ role: 'user', content: '' }] };
    const late = new TimeoutError(`The session did not end within ${timeoutMs / 1000} s. Give it more time (timeout), or end it.`);
    const timer = setTimeout(() => this.#stopped.abort(late), timeoutMs);
    this.#playing = this.#play().finally(() => clearTimeout(timer));
    // Whoever opens it hears of its failure; later the rollout holds it.
    this.#playing.then((played) => (this.#played = played)).catch((error: unknown) => this.#opened.reject(error));
  }

  /** What the agent needs. Rejects if the policy cannot be leased. */
  async address(): Promise<Pick<AgentPolicy, 'name' | 'baseURL' | 'apiKey'>> {
    const failed = this.#playing.then(({ error }) => Promise.reject(new Error(error?.message ?? 'The session ended at once')));
    return Promise.race([this.#opened.promise, failed]);
  }

  /** True while the agent may ask. */
  get isOpen(): boolean {
    return this.#played === null;
  }

  /** What was played, until now if it is open; null before the agent has its address. */
  get rollout(): Rollout | null {
    const played = this.#played ?? this.#soFar?.() ?? null;
    if (played === null) return null;
    const { id, request } = this.#options;
    const error = worded(played.error);
    return {
      ...played,
      error,
      row: this.#row,
      rolloutId: id,
      groupId: request.group_id ?? String(this.#row.exampleId),
      index: 0,
      task: null,
      reward: error === null ? this.reward : null,
      metrics: {},
      scoredWith: 0,
      attempts: 1,
    };
  }

  /** The agent is answered no longer. */
  async end(): Promise<Rollout> {
    this.#asked.resolve();
    await this.#playing;
    return this.rollout!;
  }

  /** Stops at once, without a rollout that counts. */
  async drop(): Promise<void> {
    this.#stopped.abort();
    await this.#playing.catch(() => {});
  }

  async #play(): Promise<Played> {
    const { id, request, client, gateway, sampling, maxTokens, seed } = this.#options;
    const { signal } = this.#stopped;
    const random = Random.fromSeed(seed).fork(id);
    await using leases = new Disposers();
    const take = async (like?: PolicyLease) =>
      leases.use(
        await openUntilAborted(client.lease(signal, { key: id, random: random.fork('policy'), ...(like === undefined ? {} : { like }) }), signal),
      );
    const lease = await take();
    const environment = new AgentEnv({
      id: 'gateway',
      eval: new Dataset('sessions', [this.#row]),
      rubric: new Rubric({ funcs: [] }),
      ...(request.max_turns === undefined ? {} : { maxTurns: request.max_turns }),
      limits: request.max_completion_tokens === undefined ? {} : { completionTokens: request.max_completion_tokens },
      run: async ({ policy }) => {
        this.#opened.resolve({ name: policy.name, baseURL: policy.baseURL, apiKey: policy.apiKey });
        await untilAborted(this.#asked.promise, signal);
        return {};
      },
    });
    // The leases last as long as the rollout.
    return await playAgent({
      environment,
      row: this.#row,
      random,
      signal,
      onOpen: (soFar) => (this.#soFar = soFar),
      asked: {
        lease,
        another: () => take(lease),
        capabilities: client.capabilities,
        sampling,
        maxTokens,
        overridesSampling: request.override_sampling ?? true,
        random: random.fork('policy'),
        gateway,
      },
    });
  }
}

/** An agent elsewhere has an address and no `policy`; the environment that stands for it has no name that anybody gave it. */
function worded(error: Played['error']): Played['error'] {
  if (error?.reason !== 'no_call') return error;
  const message = 'No agent asked the policy in this session. Give it base_url, or api_key where a tool takes no path.';
  return { ...error, message, chain: message };
}
