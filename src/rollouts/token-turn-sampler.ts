/** Samples the turns of an agent by token ids: each goes on from the ids of the turn before it, which are never rendered again. */
import { refuseSetting } from '../agents/agent-refusal.ts';
import { untilAborted } from '../core/abort.ts';
import { assertFiniteLogProbs } from '../core/token-buffer.ts';
import type { PolicyCapabilities, TokenLease, TokenSample } from '../clients/policy-client.ts';
import type { EnvironmentLimits } from '../core/environment.ts';
import { PromptTooLongError } from '../core/errors.ts';
import { isRefusedRequest, refusalReason } from '../core/refused-request-error.ts';
import type { Message, RenderedTokens } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { type Sampling, templateVariables } from '../core/sampling.ts';
import { splitThoughts } from '../core/text-outside-thoughts.ts';
import type { AgentRequest } from '../agents/agent-request.ts';
import {
  agentCallId,
  agentCalls,
  type AgentNode,
  type SampledAgentTurn,
  type SampleOptions,
  said,
  type TurnSampler,
  withoutStop,
} from './agent-turns.ts';
import type { SessionTurn } from './agent-session.ts';
import { ConversationEnd, GrowingIds } from './conversation-end.ts';
import type { Generation } from './rollout.ts';
import { furtherSeed, turnSettings } from './turn-settings.ts';
import { untilSecondCall } from './until-second-call.ts';
import { bridgeTo, type ConversationOptions, openConversation, readTurn } from './conversation-turns.ts';

export interface TurnSamplerOptions<L> {
  /** A further lease of the version that the rollout plays. The sampler disposes none. */
  readonly lease: () => Promise<L>;
  readonly capabilities: PolicyCapabilities;
  readonly limits: EnvironmentLimits;
  /** New tokens per generation; null means the environment's own limit. */
  readonly maxTokens: number | null;
  readonly readsThoughts: boolean;
  /** The rollout's own generator, of which turn k of a conversation takes the k-th number as its seed. */
  readonly random: Random;
}

export class TokenTurnSampler implements TurnSampler {
  readonly #options: TurnSamplerOptions<TokenLease>;
  readonly #seeds: number[] = [];
  /** Of each turn that nothing has gone on from. */
  readonly #ends = new WeakMap<AgentNode, ConversationEnd>();

  /** Taken to count with, and those of attempts that failed: a lease costs until the end of the rollout. */
  readonly #free: TokenLease[] = [];
  /** Their next prompt need not extend the last one, whose attempt failed. */
  readonly #failed = new WeakSet<TokenLease>();

  constructor(options: TurnSamplerOptions<TokenLease>) {
    this.#options = options;
  }

  async sample(place: AgentNode, options: SampleOptions): Promise<SampledAgentTurn> {
    const wanted = turnSettings(place.turn!.request, { ...options, capabilities: this.#options.capabilities });
    const since = sinceTurn(place.parent!);
    const end = await this.#endAfter(since.before);
    try {
      const answer = await this.#goOn(place, { ...options, ...since, end, wanted });
      this.#ends.set(place, end);
      return answer;
    } catch (error) {
      this.#free.push(end.lease);
      this.#failed.add(end.lease);
      throw error;
    }
  }

  async #goOn(place: AgentNode, { before, next, end, wanted, ordinal, mostTokens, signal }: TurnOptions): Promise<SampledAgentTurn> {
    const { capabilities, readsThoughts } = this.#options;
    const { request } = place.turn!;
    const { settings } = request;
    const { sampling, tools, callable, stop, isSingle, prefill, seed } = wanted;
    const conversation = { tools, variables: templateVariables(sampling), capabilities, readsThoughts, signal };
    const { lease, turns: index } = end;
    const { ids: given, images, opening } = await this.#given(end, { before, next, prefill, request }, conversation);
    const prompt = end.read(next, { ids: given, images });
    const most = Math.min(this.#room(prompt.length), mostTokens, settings.maxTokens ?? Infinity);
    const maxNewTokens = Number.isFinite(most) ? most : null;
    const asked = {
      ...(end.images.length === 0 ? {} : { images: end.images }),
      ...(settings.logProbs === undefined ? {} : { likeliest: settings.logProbs }),
      ...(seed === null ? {} : { mustSeed: true }),
      ...(this.#failed.delete(lease) ? { cut: true } : {}),
      seed: seed ?? furtherSeed(this.#seed(index, place.turn!.role), ordinal),
    };
    const sampled = await lease.generate({ prompt, sampling, maxNewTokens, stop, ...asked, signal });
    assertFiniteLogProbs(sampled);
    // Before the turn is on record: an agent that hears a refusal has not had it.
    if (settings.logProbs !== undefined && settings.logProbs > 0 && sampled.likeliest === undefined)
      refuseSetting(request, 'topLogProbs', 'the policy gives the log-prob of each sampled token alone. Leave it out');
    const whole = opening + sampled.text;
    const callsFrom = whole.length - splitThoughts(whole).rest.length;
    const sample = isSingle ? untilSecondCall(sampled, { opening, callsFrom, ...capabilities }) : sampled;
    const text = opening + sample.text;
    const callId = (call: number) => agentCallId(place.parent!, ordinal, call);
    const read = readTurn(text, { sample, isWhole: sample === sampled, index, callId, callsFrom }, { ...conversation, tools: callable });
    const toolCalls = agentCalls(read.toolCalls, callId);
    const stopped = settings.stop?.find((one) => one === sample.stopReason) ?? null;
    end.say(read.message, sample.ids);
    return {
      ...said(toolCalls.length === 0 ? text : (read.recorded.content as string), stopped),
      toolCalls,
      finish: sample.finish,
      usage: sample.usage,
      reasoningTokens: tokensBefore(sample, callsFrom - opening.length),
      ...(settings.logProbs === undefined ? {} : { logProbs: logProbsOf(sample, stopped) }),
      played: { message: read.message, isClosed: read.isClosed },
      // As the agent got it: without calls, it is all text.
      recorded: toolCalls.length === 0 ? { role: 'assistant', content: text } : read.recorded,
      text,
      generation: generationOf(sample, { maxNewTokens, opening }),
      tokens: { given, images, sample, version: lease.policy.version, before, length: prompt.length + sample.ids.length },
    };
  }

  async count(request: AgentRequest, sampling: Sampling, signal: AbortSignal): Promise<number> {
    const { messages, tools } = request;
    const { capabilities, readsThoughts } = this.#options;
    if (this.#free.length === 0) this.#free.push(await this.#options.lease());
    const lease = this.#free.at(-1)!;
    const options = { tools, variables: templateVariables(sampling), capabilities, readsThoughts, signal };
    return (await rendered(request, openConversation(lease, messages, options))).ids.length;
  }

  /** A lease checks that its prompts extend each other, so a conversation that another one has left goes on with a further lease. */
  async #endAfter(before: AgentNode | null): Promise<ConversationEnd> {
    const end = before === null ? undefined : this.#ends.get(before);
    if (before !== null) this.#ends.delete(before);
    if (end !== undefined) return end;
    return new ConversationEnd(this.#free.pop() ?? (await this.#options.lease()), before);
  }

  /** What stands before the turn, with the text that opens it. */
  async #given(
    { lease, messages }: ConversationEnd,
    { before, next, prefill, request }: TurnPlace,
    options: ConversationOptions,
  ): Promise<Required<RenderedTokens>> {
    const given = await rendered(
      request,
      before === null
        ? openConversation(lease, next, options)
        : bridgeTo(lease, { history: messages.slice(0, -1), turn: before.turn!.answer!.played, next }, options),
    );
    if (prefill === '') return given;
    if (given.opening !== '') refuseSetting(request, 'toolChoice', 'the chat template of the policy opens each turn with thoughts');
    const opened = await untilAborted(lease.encode(prefill), options.signal);
    const ids = new GrowingIds();
    ids.push(given.ids);
    return { ...given, ids: ids.push(opened), opening: prefill };
  }

  #room(length: number): number {
    const { capabilities, limits, maxTokens } = this.#options;
    const scale = capabilities.lengthScale ?? 1;
    const window = capabilities.maxModelLen ?? Infinity;
    const most = maxTokens ?? limits.responseTokens * scale;
    const room = length > limits.contextTokens * scale ? 0 : Math.min(most, window - length);
    if (room > 0) return room;
    throw new PromptTooLongError(
      `The messages have ${length} tokens, which leave no room for an answer in ${Math.min(limits.contextTokens * scale, window)}`,
    );
  }

  /** The seed of the k-th turn of any conversation, another one for each role: two may answer the same list. */
  #seed(index: number, role: string | null): number {
    while (this.#seeds.length <= index) this.#seeds.push(this.#options.random.uint32());
    const seed = this.#seeds[index]!;
    return role === null ? seed : Random.fromSeed(seed).fork(role).uint32();
  }
}

/** The last turn up to a node, null if there is none, and the messages behind it. */
function sinceTurn(node: AgentNode): { readonly before: AgentNode | null; readonly next: readonly Message[] } {
  const next: Message[] = [];
  let at = node;
  for (; at.parent !== null && at.turn === null; at = at.parent) next.push(at.message!);
  return { before: at.turn === null ? null : at, next: next.toReversed() };
}

interface TurnOptions extends SampleOptions, ReturnType<typeof sinceTurn> {
  readonly end: ConversationEnd;
  readonly wanted: ReturnType<typeof turnSettings>;
}

interface TurnPlace extends ReturnType<typeof sinceTurn> {
  readonly prefill: string;
  readonly request: SessionTurn['request'];
}

/** What a chat template refuses is the agent's to change. */
async function rendered<T>(request: Pick<AgentRequest, 'keys'>, rendering: Promise<T>): Promise<T> {
  try {
    return await rendering;
  } catch (error) {
    if (isRefusedRequest(error)) refuseSetting(request, 'messages', refusalReason(error));
    throw error;
  }
}

/** Number of tokens that begin before this place in the text. */
function tokensBefore({ ids, textEnds }: TokenSample, end: number): number {
  let count = 0;
  while (count < ids.length && (textEnds[count - 1] ?? 0) < end) count += 1;
  return count;
}

/** Every sampled token with its text, for an agent that asks; as the answer, without the stop string that ended it. */
function logProbsOf({ text, tail, textEnds, logProbs, likeliest }: TokenSample, stopped: string | null): NonNullable<SampledAgentTurn['logProbs']> {
  const whole = stopped === null ? text + tail : withoutStop(text, stopped);
  const starts = [0, ...textEnds];
  const count = stopped === null ? logProbs.length : starts.findIndex((start) => start >= whole.length);
  return Array.from(logProbs.subarray(0, count), (logProb, i) => ({
    text: whole.slice(starts[i], textEnds[i]),
    logProb,
    ...(likeliest === undefined ? {} : { top: likeliest[i]! }),
  }));
}

function generationOf(
  { ids, finish, stopReason, usage, stopIsGuess = false, stopWasIgnored = false }: TokenSample,
  { maxNewTokens, opening }: Pick<Generation, 'maxNewTokens'> & { readonly opening: string },
): Generation {
  return {
    finish,
    stopReason,
    usage,
    maxNewTokens,
    keptTokens: ids.length,
    overhang: '',
    ...(opening === '' ? {} : { opening }),
    ...(stopIsGuess ? { stopIsGuess } : {}),
    ...(stopWasIgnored ? { stopWasIgnored } : {}),
  };
}
