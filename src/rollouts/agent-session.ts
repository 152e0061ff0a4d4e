/**
 * The policy as an agent sees it during one rollout: it answers whole lists of messages, finds out which conversation each of them goes on with, and keeps every turn as it was
 * sampled. It knows no API; a gateway and a provider translate.
 */
import type { AgentRequest, AgentSettings, AgentTurn } from '../agents/agent-request.ts';
import { AgentRefusal } from '../agents/agent-refusal.ts';
import { type Fork, type GraphNode, MessageGraph } from '../agents/message-graph.ts';
import { untilAborted } from '../core/abort.ts';
import type { StopCondition } from '../core/environment.ts';
import { PromptTooLongError, thrownText } from '../core/errors.ts';
import type { Sampling } from '../core/sampling.ts';
import type { SampledAgentTurn, TurnSampler } from './agent-turns.ts';

export interface AgentSessionOptions {
  readonly sampler: TurnSampler;
  /** The run's. */
  readonly sampling: Sampling;
  /** True: the run's settings hold whatever the agent asks for, as in training. False: the agent's hold where it gives some. */
  readonly isOverridden: boolean;
  /** Tokens of the policy in the whole rollout. */
  readonly completionTokens: number;
  /** Most turns of the policy in the whole rollout, from 1 up. */
  readonly maxTurns: number;
  /** Ends with the rollout. */
  readonly signal: AbortSignal;
}

/** A turn in the graph: without an answer while it is sampled. */
export interface SessionTurn {
  answer: SampledAgentTurn | null;
  readonly request: AgentRequest;
  /** Where its list left what had been said; null if it went on. */
  readonly fork: Fork | null;
  /** Settles with its answer; others that ask the same wait for it. */
  sampled: Promise<SampledAgentTurn>;
  /** Connections that wait for it. */
  waiting: number;
  /** When it was asked for and when it was answered, in events of the session: 0 for the first request of all. */
  readonly begun: number;
  ended: number;
}

type Node = GraphNode<SessionTurn>;

export class AgentSession {
  readonly graph = new MessageGraph<SessionTurn>();
  /** Turns in the order in which they were sampled. */
  readonly turns: SessionTurn[] = [];
  /** Why it takes no further request; null while it does. */
  ended: StopCondition | null = null;
  /** What made the policy fail for good at a list that no later request got answered; by the node of the list. */
  readonly failures = new Map<Node, unknown>();
  readonly #options: AgentSessionOptions;
  #left: number;
  #begun = 0;
  #events = 0;

  constructor(options: AgentSessionOptions) {
    this.#options = options;
    this.#left = options.completionTokens;
  }

  /**
   * Answers a request, `settings.n` times. A list that was answered before is a repeat and gets the same answer, unless its conversation has gone on, or somebody is
   * waiting for it now. Throws AgentRefusal for a request that cannot be honoured, and once the rollout has ended.
   * @param signal of the connection; the turn is sampled to its end even if it aborts, because a client asks again
   */
  async ask(request: AgentRequest, signal: AbortSignal): Promise<readonly AgentTurn[]> {
    this.#assertOpen();
    const { node, fork } = this.graph.place(request.messages, request.tools);
    const { n = 1 } = request.settings;
    const taken: SessionTurn[] = [];
    for (let i = 0; i < n; i++) taken.push(this.#repeated(node, taken) ?? this.#begin(node, request, fork));
    for (const turn of taken) turn.waiting += 1;
    try {
      return await untilAborted(Promise.all(taken.map(({ sampled }) => sampled)), signal);
    } finally {
      for (const turn of taken) turn.waiting -= 1;
    }
  }

  /** No further request is answered. */
  end(stop: StopCondition): void {
    this.ended ??= stop;
  }

  #assertOpen(): void {
    if (this.ended === null && this.#options.signal.aborted) this.ended = 'timeout_reached';
    if (this.ended === null && this.#left <= 0) this.ended = 'max_total_completion_tokens_reached';
    if (this.ended === null && this.#begun >= this.#options.maxTurns) this.ended = 'max_turns_reached';
    if (this.ended !== null)
      throw new AgentRefusal(400, null, `The rollout has ended (${this.ended}), so the policy answers no further request of it.`);
  }

  /** The turn that answers the same list for another connection, which is gone or has its answer. */
  #repeated(node: Node, taken: readonly SessionTurn[]): SessionTurn | null {
    const turns = node.turns.filter(({ isLeaf, turn }) => isLeaf && turn!.waiting === 0 && !taken.includes(turn!));
    return turns[0]?.turn ?? null;
  }

  #begin(node: Node, request: AgentRequest, fork: Fork | null): SessionTurn {
    this.#begun += 1;
    const ordinal = node.turns.length;
    const kind = node.turns.some(({ isLeaf }) => !isLeaf) ? 'retry' : 'sample';
    const again: Fork | null =
      ordinal === 0
        ? null
        : {
            kind,
            at: node.depth,
            difference: kind === 'retry' ? 'the same list was asked again after its answer was used' : 'the same list was asked for several answers',
          };
    const turn: SessionTurn = {
      answer: null,
      request,
      fork: fork ?? again,
      sampled: undefined as never,
      waiting: 0,
      begun: this.#events++,
      ended: Infinity,
    };
    const place = this.graph.addTurn(node, turn);
    turn.sampled = this.#sample(place, { turn, ordinal });
    // A request whose connection is gone is nobody's to catch.
    turn.sampled.catch(() => {});
    return turn;
  }

  async #sample(place: Node, { turn, ordinal }: { readonly turn: SessionTurn; readonly ordinal: number }): Promise<SampledAgentTurn> {
    const { sampler, signal } = this.#options;
    const node = place.parent!;
    try {
      const answer = await untilAborted(
        sampler.sample(place, { ordinal, sampling: this.#sampling(turn.request.settings), mostTokens: this.#left, signal }),
        signal,
      );
      this.#left -= answer.usage.completionTokens;
      turn.answer = answer;
      turn.ended = this.#events++;
      this.turns.push(turn);
      this.failures.delete(node);
      return answer;
    } catch (error) {
      node.turns.splice(node.turns.indexOf(place), 1);
      if (error instanceof AgentRefusal) throw error;
      this.failures.set(node, error);
      const isLong = error instanceof PromptTooLongError;
      const text = isLong ? `This model's maximum context length is reached. ${thrownText(error)}` : `The policy failed: ${thrownText(error)}`;
      throw new AgentRefusal(isLong ? 400 : 502, isLong ? 'messages' : null, text);
    }
  }

  #sampling({ temperature, topP, extra }: AgentSettings): Sampling {
    const { sampling, isOverridden } = this.#options;
    if (isOverridden) return sampling;
    return {
      ...sampling,
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(extra === undefined ? {} : { extra: { ...sampling.extra, ...extra } }),
    };
  }
}
