/**
 * The policy as an agent sees it during one rollout: it answers whole lists of messages, finds out which conversation each of them goes on with, and keeps every turn as it was
 * sampled. It knows no API; a gateway and a provider translate.
 */
import { AgentRefusal, serverRefusal } from '../agents/agent-refusal.ts';
import type { AgentRequest, AgentSettings, AgentTurn } from '../agents/agent-request.ts';
import { MessageGraph } from '../agents/message-graph.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { untilAborted } from '../core/abort.ts';
import type { StopCondition } from '../core/environment.ts';
import { NumericPolicyError, PromptTooLongError, thrownText } from '../core/errors.ts';
import { isRefusedRequest } from '../core/refused-request-error.ts';
import type { Models } from '../core/model.ts';
import type { Sampling } from '../core/sampling.ts';
import { TokenBudget } from './token-budget.ts';
import type { AgentNode, SampledAgentTurn, TurnSampler } from './agent-turns.ts';
import { AgentRequests, repeatedTurns } from './agent-requests.ts';
import { askRole } from './ask-role.ts';
import { BusyTime } from './busy-time.ts';
import { OpenFailures } from './open-failures.ts';
import { watchedModels } from './watched-models.ts';

export interface AgentSessionOptions {
  readonly sampler: TurnSampler;
  /** The models of the environment's roles, which the agent asks by the name of the role. */
  readonly models: Models;
  /** The run's. */
  readonly sampling: Sampling;
  /** True: the run's settings hold whatever the agent asks for, as in training. False: the agent's hold where it gives some. */
  readonly overridesSampling: boolean;
  /** Tokens of the policy in the whole rollout. */
  readonly completionTokens: number;
  /** Most tokens of one turn. @default only the budget's */
  readonly turnTokens?: number;
  /** Most turns of the policy in the whole rollout, from 1 up. */
  readonly maxTurns: number;
  /** Ends with the rollout. */
  readonly signal: AbortSignal;
}

/** A turn in the graph. */
export interface SessionTurn {
  /** Null until somebody got it. Until then the turn is not on record: nothing that the agent did or said follows from it. */
  answer: SampledAgentTurn | null;
  /** Its messages are in the tree. */
  readonly request: Pick<AgentRequest, 'tools' | 'settings' | 'keys'>;
  /** Its number among the answers to its list that are wanted next to each other, from 0 up. */
  readonly choice: number;
  /** The role that asked; null without one. */
  readonly role: string | null;
  /** Settles with its answer; others that ask the same wait for it. */
  sampled: Promise<SampledAgentTurn>;
  /** Connections that wait for it. */
  waiting: number;
  /** When it was asked for and when it was sampled, in events of the session: 0 for the first request of all. */
  readonly begun: number;
  ended: number;
}

/** What the next answer makes good: a failure to count, and a request that the policy's server refused. */
const NEXT = 'next';

export class AgentSession {
  readonly graph = new MessageGraph<SessionTurn>();
  readonly requests = new AgentRequests();
  /** Of the policy at a list, by its node, and of the models. */
  readonly failures = new OpenFailures();
  /** The models, watched. */
  readonly models: Models;
  /** When the policy was at work. */
  readonly busy = new BusyTime();
  /** Turns that the agent got. */
  turns = 0;
  readonly #options: AgentSessionOptions;
  readonly #stopped = new AbortController();
  readonly #budget: TokenBudget;
  /** Turns that were sampled or are being sampled. */
  #begun = 0;
  #events = 0;
  /** Requests that wait for an answer. */
  #waiting = 0;
  /** Null while it takes requests. */
  #ended: StopCondition | null = null;
  #spent: { readonly stop: StopCondition; readonly at: number } | null = null;

  constructor(options: AgentSessionOptions) {
    this.#options = options;
    this.models = watchedModels(options.models, this.failures);
    this.#budget = new TokenBudget(options.completionTokens);
  }

  /** The budget that refused a request, or `prompt_too_long`; null if a later request brought a further turn. */
  get spent(): StopCondition | null {
    return this.#spent?.stop ?? null;
  }

  /**
   * Answers a request, `settings.n` times: with all answers, or with none if one of them fails. A list that was asked before under the same settings is a repeat and gets the same
   * answers, also when a budget is spent, unless its conversation has gone on, or somebody is waiting for them now. An answer is on record once somebody got it.
   * Throws AgentRefusal for a request that cannot be honoured or is repeated too often, and once the rollout has ended.
   * @param signal of the connection; the turn is sampled to its end even if it aborts, because a client asks again
   */
  async ask(request: AgentRequest, signal: AbortSignal, role: string | null = null): Promise<readonly AgentTurn[]> {
    this.#assertOpen();
    this.requests.lastModel = request.model;
    const model = Object.hasOwn(this.models, request.model) ? this.models[request.model]! : null;
    try {
      return await (model === null ? this.#askPolicy(request, signal, role) : untilAborted(askRole(model, request, this.#stopped.signal), signal));
    } catch (error) {
      if (error instanceof AgentRefusal) this.requests.refused(error);
      throw error;
    }
  }

  /** Number of tokens of the request's messages and tools. */
  async count(request: AgentRequest, signal: AbortSignal): Promise<number> {
    this.#assertOpen();
    const since = this.failures.now();
    try {
      const tokens = await untilAborted(this.#options.sampler.count(request, this.#options.sampling, signal), signal);
      this.failures.answered(NEXT, since);
      return tokens;
    } catch (error) {
      throw signal.aborted || error instanceof AgentRefusal ? error : this.#failed(NEXT, error);
    }
  }

  /** No further request is answered, and those that wait are refused: what arrives later never reaches the record. */
  end(stop: StopCondition): void {
    this.#ended ??= stop;
    this.#stopped.abort(refusalAfter(this.#ended));
  }

  #assertOpen(): void {
    if (this.#options.signal.aborted) this.#ended ??= 'timeout_reached';
    if (this.#ended !== null) throw refusalAfter(this.#ended);
  }

  async #askPolicy(request: AgentRequest, signal: AbortSignal, role: string | null): Promise<readonly AgentTurn[]> {
    for (const key of [...request.unhonoured, ...this.#overridden(request.settings)]) this.requests.unhonoured.add(key);
    const since = this.failures.now();
    const node = this.graph.place(request.messages, request.tools, role);
    const { n = 1 } = request.settings;
    const taken = repeatedTurns(node, request).slice(0, n);
    const fresh = n - taken.length;
    if (fresh > 0) this.#assertLeft(fresh);
    else if (taken.every(({ turn }) => turn!.answer !== null)) this.requests.repeated(node);
    for (let i = 0; i < fresh; i++) taken.push(this.#begin(node, { request, role }));
    const turns = taken.toSorted((a, b) => a.ordinal - b.ordinal).map(({ turn }) => turn!);
    for (const turn of turns) turn.waiting += 1;
    this.#waiting += 1;
    try {
      const answers = await untilAborted(Promise.all(turns.map(({ sampled }) => sampled)), signal);
      for (const asked of [node, NEXT]) this.failures.answered(asked, since);
      for (const [i, turn] of turns.entries()) this.#heard(turn, answers[i]!);
      if (fresh > 0) this.requests.wentOn();
      if (fresh > 0 && this.#spent !== null && since > this.#spent.at) this.#spent = null;
      return answers;
    } finally {
      this.#waiting -= 1;
      for (const turn of turns) turn.waiting -= 1;
    }
  }

  #heard(turn: SessionTurn, answer: SampledAgentTurn): void {
    if (turn.answer !== null) return;
    turn.answer = answer;
    this.turns += 1;
  }

  /** Of requests to the policy that brought no answer: whether one still waits for it, or the agent left all of them. Null if there was none. */
  get unanswered(): 'waiting' | 'left' | null {
    if (this.#waiting > 0) return 'waiting';
    return this.#events > 0 ? 'left' : null;
  }

  /** Before the first of them is begun. */
  #assertLeft(turns: number): void {
    if (this.#budget.isSpent) throw this.#refusedFor('max_total_completion_tokens_reached');
    const left = this.#options.maxTurns - this.#begun;
    if (left <= 0) throw this.#refusedFor('max_turns_reached');
    if (turns <= left) return;
    this.#refusedFor('max_turns_reached');
    throw new AgentRefusal(400, 'n', `n cannot be honoured: it asks for ${turns} turns, and the rollout has ${left} left.`);
  }

  #refusedFor(stop: StopCondition): AgentRefusal {
    this.#spent = { stop, at: this.failures.now() };
    return refusalAfter(stop);
  }

  #begin(node: AgentNode, { request, role }: Pick<SessionTurn, 'role'> & { readonly request: AgentRequest }): AgentNode {
    this.#begun += 1;
    const { tools, settings, keys } = request;
    const turn: SessionTurn = {
      answer: null,
      request: { tools, settings, ...(keys === undefined ? {} : { keys }) },
      choice: choiceOf(node, settings),
      role,
      sampled: undefined as never,
      waiting: 0,
      begun: this.#events++,
      ended: Infinity,
    };
    const place = this.graph.addTurn(node, turn);
    turn.sampled = this.busy.during(this.#sample(place));
    // A request whose connection is gone is nobody's to catch.
    turn.sampled.catch(() => {});
    return place;
  }

  async #sample(place: AgentNode): Promise<SampledAgentTurn> {
    const turn = place.turn!;
    const { signal } = this.#stopped;
    try {
      const answer = await this.#withinBudget(place);
      turn.ended = this.#events++;
      return answer;
    } catch (error) {
      this.graph.takeBack(place);
      this.#begun -= 1;
      if (signal.aborted) throw refusalAfter(this.#ended!);
      throw error instanceof AgentRefusal ? error : this.#failed(place.parent, error);
    }
  }

  /** What an agent hears of a failure of the policy. A client tries 502 again, and gets another attempt. What its server refused, the agent may ask in another way. */
  #failed(asked: unknown, error: unknown): AgentRefusal {
    const isRefused = isRefusedRequest(error);
    this.failures.add(isRefused ? NEXT : asked, { error, phase: 'generation' });
    if (isRefused) return serverRefusal(error);
    if (!(error instanceof PromptTooLongError))
      return new AgentRefusal(error instanceof NumericPolicyError ? 500 : 502, null, `The policy failed: ${thrownText(error)}`);
    this.#refusedFor('prompt_too_long');
    return new AgentRefusal(400, 'messages', `The model's maximum context length is reached. ${thrownText(error)}`, 'context_length_exceeded');
  }

  async #withinBudget(place: AgentNode): Promise<SampledAgentTurn> {
    const { sampler, overridesSampling: isTrained, turnTokens = Infinity } = this.#options;
    const { settings } = place.turn!.request;
    const { signal } = this.#stopped;
    const mostTokens = await untilAborted(this.#budget.take(Math.min(turnTokens, settings.maxTokens ?? Infinity)), signal);
    let written = 0;
    try {
      if (mostTokens === 0) throw this.#refusedFor('max_total_completion_tokens_reached');
      const answer = await untilAborted(
        sampler.sample(place, {
          ordinal: place.ordinal,
          choice: place.turn!.choice,
          sampling: this.#sampling(settings),
          isTrained,
          mostTokens,
          signal,
        }),
        signal,
      );
      written = answer.usage.completionTokens;
      return answer;
    } finally {
      this.#budget.give(mostTokens, written);
    }
  }

  /** Keys of sampling that give way to the run's settings, and say something else. */
  #overridden({ temperature, topP, seed, extra = {} }: AgentSettings): readonly string[] {
    const { sampling, overridesSampling } = this.#options;
    if (!overridesSampling) return [];
    const given = { temperature, top_p: topP, seed, ...extra };
    const runs: Readonly<Record<string, unknown>> = { ...sampling.extra, temperature: sampling.temperature ?? 1, top_p: sampling.topP ?? 1 };
    return Object.entries(given).flatMap(([name, value]) => (value === undefined || value === runs[name] ? [] : [name]));
  }

  #sampling({ temperature, topP, extra }: AgentSettings): Sampling {
    const { sampling, overridesSampling } = this.#options;
    if (overridesSampling) return sampling;
    return {
      ...sampling,
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(extra === undefined ? {} : { extra: { ...sampling.extra, ...extra } }),
    };
  }
}

/** The lowest number that no answer has which was asked for under these settings and is not gone on from. One that failed has left its number. */
function choiceOf({ turns }: AgentNode, settings: AgentSettings): number {
  const asked = canonicalJson(settings);
  const taken = turns.flatMap(({ isLeaf, turn }) => (isLeaf && canonicalJson(turn!.request.settings) === asked ? [turn!.choice] : []));
  let choice = 0;
  while (taken.includes(choice)) choice += 1;
  return choice;
}

function refusalAfter(stop: StopCondition): AgentRefusal {
  return new AgentRefusal(400, null, `The rollout has ended (${stop}), so the policy answers no further request of it.`, null, false);
}
