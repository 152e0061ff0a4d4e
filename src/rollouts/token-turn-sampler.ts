/** Samples the turns of an agent by token ids: each goes on from the ids of the turn before it, which are never rendered again. */
import { refuseSetting } from '../agents/agent-refusal.ts';
import { untilAborted } from '../core/abort.ts';
import { assertFiniteLogProbs } from '../core/token-buffer.ts';
import type { PolicyCapabilities, TokenLease, TokenSample } from '../clients/policy-client.ts';
import type { EnvironmentLimits } from '../core/environment.ts';
import { PromptTooLongError } from '../core/errors.ts';
import { isRefusedRequest, refusalReason } from '../core/refused-request-error.ts';
import type { PlacedImage, RenderedTokens } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { type Sampling, templateVariables } from '../core/sampling.ts';
import { splitThoughts } from '../core/text-outside-thoughts.ts';
import type { AgentRequest } from '../agents/agent-request.ts';
import {
  agentCallId,
  agentCalls,
  type AgentNode,
  pathOf,
  type SampledAgentTurn,
  type SampleOptions,
  said,
  type TurnSampler,
  type TurnTokens,
  withoutStop,
} from './agent-turns.ts';
import type { SessionTurn } from './agent-session.ts';
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

/** What a conversation goes on with after its last turn. */
interface ConversationEnd {
  readonly lease: TokenLease;
  /** Everything up to its end. */
  readonly ids: GrowingIds;
}

/** Copies only what is new. */
class GrowingIds {
  #ids = new Int32Array(0);
  #length = 0;

  /** Everything so far: a view, which later pushes leave as it is. */
  push(part: Int32Array): Int32Array {
    const length = this.#length + part.length;
    if (length > this.#ids.length) {
      const grown = new Int32Array(Math.max(length, this.#ids.length * 2));
      grown.set(this.#ids.subarray(0, this.#length));
      this.#ids = grown;
    }
    this.#ids.set(part, this.#length);
    this.#length = length;
    return this.#ids.subarray(0, length);
  }
}

export class TokenTurnSampler implements TurnSampler {
  readonly #options: TurnSamplerOptions<TokenLease>;
  readonly #seeds: number[] = [];
  /** Of each turn that nothing has gone on from. */
  readonly #ends = new WeakMap<AgentNode, ConversationEnd>();

  /** Taken to count with, and then for the first conversation. */
  #first: TokenLease | null = null;

  constructor(options: TurnSamplerOptions<TokenLease>) {
    this.#options = options;
  }

  async sample(place: AgentNode, options: SampleOptions): Promise<SampledAgentTurn> {
    const { ordinal, mostTokens, signal } = options;
    const { capabilities, readsThoughts } = this.#options;
    const { request } = place.turn!;
    const { settings } = request;
    const { sampling, tools, callable, stop, isSingle, prefill, seed } = turnSettings(request, { ...options, capabilities });
    const path = pathOf(place.parent!);
    const conversation = { tools, variables: templateVariables(sampling), capabilities, readsThoughts, signal };
    const before = path.findLast(({ turn }) => turn !== null) ?? null;
    const end = await this.#endAfter(before);
    const { lease } = end;
    const { ids: given, images, opening } = await this.#given(lease, { path, before, prefill, request }, conversation);
    const prompt = end.ids.push(given);
    const shown = imagesOf({ before, given, images }, prompt.length);
    const most = Math.min(this.#room(prompt.length), mostTokens, settings.maxTokens ?? Infinity);
    const maxNewTokens = Number.isFinite(most) ? most : null;
    const index = path.filter(({ turn }) => turn !== null).length;
    const asked = {
      ...(shown.length === 0 ? {} : { images: shown }),
      ...(settings.logProbs === undefined ? {} : { likeliest: settings.logProbs }),
      ...(seed === null ? {} : { mustSeed: true }),
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
    end.ids.push(sample.ids);
    this.#ends.set(place, end);
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
    const lease = (this.#first ??= await this.#options.lease());
    const options = { tools, variables: templateVariables(sampling), capabilities, readsThoughts, signal };
    return (await rendered(request, openConversation(lease, messages, options))).ids.length;
  }

  /** A lease checks that its prompts extend each other, so a conversation that another one has left goes on with a further lease. */
  async #endAfter(before: AgentNode | null): Promise<ConversationEnd> {
    const end = before === null ? undefined : this.#ends.get(before);
    if (before !== null) this.#ends.delete(before);
    if (end !== undefined) return end;
    const ids = new GrowingIds();
    ids.push(promptOf({ before, given: new Int32Array(0) }));
    const lease = this.#first ?? (await this.#options.lease());
    this.#first = null;
    return { lease, ids };
  }

  /** What stands before the turn, with the text that opens it. */
  async #given(lease: TokenLease, { path, before, prefill, request }: TurnPlace, options: ConversationOptions): Promise<Required<RenderedTokens>> {
    const messages = path.map(({ message, turn }) => message ?? turn!.answer!.played.message);
    const at = before === null ? -1 : path.indexOf(before);
    const parts = { history: messages.slice(0, at), turn: before?.turn!.answer!.played, next: messages.slice(at + 1) };
    const given = await rendered(
      request,
      parts.turn === undefined ? openConversation(lease, messages, options) : bridgeTo(lease, { ...parts, turn: parts.turn }, options),
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

interface TurnPlace {
  readonly path: readonly AgentNode[];
  readonly before: AgentNode | null;
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

/** Everything that the policy read before a turn, with the turns that it goes on from. */
export function promptOf({ before, given }: Pick<TurnTokens, 'before' | 'given'>): Int32Array {
  let end = (before?.turn!.answer!.tokens!.length ?? 0) + given.length;
  const ids = new Int32Array(end);
  const put = (part: Int32Array) => ids.set(part, (end -= part.length));
  put(given);
  for (const { sample, given: own } of turnsBefore(before)) {
    put(sample.ids);
    put(own);
  }
  return ids;
}

/** The images in a prompt of so many tokens, in order. */
export function imagesOf({ before, given, images }: Pick<TurnTokens, 'before' | 'given' | 'images'>, length: number): readonly PlacedImage[] {
  const placed: PlacedImage[] = [];
  const put = (shown: readonly PlacedImage[], start: number) => {
    for (const image of shown.toReversed()) placed.push({ ...image, offset: start + image.offset });
  };
  put(images, length - given.length);
  for (const { images: shown, length: end, sample, given: own } of turnsBefore(before))
    if (shown.length > 0) put(shown, end - sample.ids.length - own.length);
  return placed.toReversed();
}

/** The last one first. */
function* turnsBefore(before: AgentNode | null): Iterable<TurnTokens> {
  for (let at = before; at !== null; at = at.turn!.answer!.tokens!.before) yield at.turn!.answer!.tokens!;
}
