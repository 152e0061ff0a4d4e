/**
 * The built-in baseline: no model, no network, no files. It searches for the question, samples an answer span from the returned passages
 * (extractive-score.ts scores them) and answers with it, in the format of the environment (extractive-protocols.ts).
 *
 * Its tokens are UTF-8 bytes. Only the span is sampled, so the span's first token has its log-prob and every other token has log-prob 0.
 * Random numbers depend only on the seed and the lease's key, so a run is reproducible at any concurrency.
 */
import { throwIfAborted } from '../core/abort.ts';
import { ConfigError } from '../core/errors.ts';
import { contentText, type Message, type RenderedTokens } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { wholeSampling } from '../core/sampling.ts';
import { toolCallId, type ToolSpec } from '../core/tool-calls.ts';
import { protocolFor, type WrittenProtocol } from './extractive-protocols.ts';
import { findCandidates, parseQuestion } from './extractive-score.ts';
import { isStopWord } from './extractive-spans.ts';
import type {
  ChatLease,
  GenerateRequest,
  LeaseOptions,
  PolicyCapabilities,
  PolicyClient,
  PolicyLease,
  PolicyRef,
  Sampling,
  TextSample,
  TokenLease,
  TokenSample,
} from './policy-client.ts';
import { PolicyVersions } from './policy-versions.ts';
import { PromptGrowth } from './prompt-growth.ts';
import { byteTokenizer } from './text-tokenizer.ts';
import { joinContents, sampleOf } from './written-sample.ts';

/**
 * Multiplies the scores before the softmax, because scores fitted by likelihood give a flat distribution: on nq-mini's training rows, sampling at
 * temperature 1 is right 14 % of the time with them, 22 % with doubled ones; the best span is right 26 % of the time.
 */
const SHARPNESS = 2;
const NAME = 'extractive-baseline';
const STOPPED = 'Stopped before the policy answered';
const NO_ANSWER = 'I do not know';

export interface ExtractiveOptions {
  /** An integer from 0 up. @default 0 */
  readonly seed?: number;
  /** @default a fixed version 0 */
  readonly versions?: PolicyVersions;
  /** `chat` is for environments whose observations are separate messages. @default 'tokens' */
  readonly kind?: 'tokens' | 'chat';
}

/** The built-in baseline as a policy. @example new ExtractiveClient({ seed: 0 }) */
export class ExtractiveClient implements PolicyClient {
  readonly name = NAME;
  readonly capabilities: PolicyCapabilities;
  readonly #random: Random;
  readonly #versions: PolicyVersions;
  #leases = 0;

  constructor({ seed = 0, versions, kind = 'tokens' }: ExtractiveOptions = {}) {
    const { hash, lengthScale } = byteTokenizer;
    this.capabilities =
      kind === 'chat'
        ? { kind, maxModelLen: null, tokenizerHash: null, logProbsMode: 'none', lengthScale, toolCalls: 'structured' }
        : { kind, maxModelLen: null, tokenizerHash: hash, logProbsMode: 'processed', lengthScale, chatTemplate: null };
    this.#random = Random.fromSeed(seed);
    this.#versions = versions ?? new PolicyVersions({ version: 0, model: this.name });
  }

  /** Without a key, the random stream depends on how many leases were taken before. */
  async lease(signal: AbortSignal, { key, like }: LeaseOptions = {}): Promise<PolicyLease> {
    throwIfAborted(signal, STOPPED);
    const held = this.#versions.acquire(like?.policy);
    this.#leases += 1;
    const lease = new ExtractiveLease(held.ref, this.#random.fork(key ?? `lease ${this.#leases}`), () => held.release());
    return this.capabilities.kind === 'chat' ? new ExtractiveChat(lease) : lease;
  }

  async close(): Promise<void> {}
}

class ExtractiveLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy: PolicyRef;
  readonly #random: Random;
  readonly #release: () => void;
  readonly #growth = new PromptGrowth();
  /** The text that holds the question; null until the first request. */
  #asked: string | null = null;
  #question: string | null = null;
  #promptLength = 0;
  #searches = 0;

  constructor(policy: PolicyRef, random: Random, release: () => void) {
    this.policy = policy;
    this.#random = random;
    this.#release = release;
  }

  async render(messages: readonly Message[]): Promise<RenderedTokens> {
    this.#asked = lastUserText(messages) ?? joinContents(messages);
    this.#question = null;
    const ids = byteTokenizer.encodePrompt(joinContents(messages));
    this.#promptLength = ids.length;
    return { ids, images: [] };
  }

  async renderNext(): Promise<RenderedTokens> {
    throw new ConfigError(`${NAME} has no chat template and plays one assistant turn by tokens. Open it with kind "chat" for conversations.`);
  }

  async encode(text: string): Promise<Int32Array> {
    return byteTokenizer.encode(text);
  }

  async decode(ids: Int32Array): Promise<string> {
    return byteTokenizer.decode(ids);
  }

  async generate({ prompt, cut = false, sampling, maxNewTokens, stop, signal }: GenerateRequest<Int32Array>): Promise<TokenSample> {
    throwIfAborted(signal, STOPPED);
    this.#growth.extendTo(prompt, cut);
    this.#asked ??= byteTokenizer.decode(prompt);
    const transcript = byteTokenizer.decode(cut ? prompt : prompt.subarray(this.#promptLength));
    const { text, drawnAt, logProb } = this.#write(protocolFor(stop), transcript, sampling);
    const sample = sampleOf(byteTokenizer.encodeSampled(text), stop, maxNewTokens ?? Infinity);
    const logProbs = new Float64Array(sample.ids.length);
    const drawnToken = drawnAt === null ? -1 : Buffer.byteLength(text.slice(0, drawnAt));
    if (drawnToken >= 0 && drawnToken < logProbs.length) logProbs[drawnToken] = logProb;
    return { ...sample, logProbs, usage: { promptTokens: prompt.length, completionTokens: sample.ids.length, cachedTokens: null } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#release();
  }

  /** The next turn of a chat. Messages before the first reply are the prompt. */
  async reply({ prompt, sampling, maxNewTokens, stop, tools = [], signal }: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    throwIfAborted(signal, STOPPED);
    const firstReply = prompt.findIndex((message) => message.role === 'assistant');
    const asked = firstReply < 0 ? prompt : prompt.slice(0, firstReply);
    this.#asked ??= lastUserText(asked) ?? joinContents(asked);
    const search = searchToolOf(tools);
    const canSearch = tools.length === 0 || search !== null;
    const transcript = tools.length === 0 ? joinContents(prompt.slice(asked.length)) : toolAnswers(prompt);
    const { text } = this.#write(protocolFor(stop), transcript, sampling, canSearch);
    const query = search === null ? undefined : /<search> (.*) <\/search>$/s.exec(text)?.[1];
    const call = search === null || query === undefined ? null : called(search, query, prompt.length);
    const sample = sampleOf(byteTokenizer.encodeSampled(call?.text ?? text), stop, maxNewTokens ?? Infinity);
    const promptTokens = Buffer.byteLength(joinContents(prompt));
    const usage = { promptTokens, completionTokens: sample.ids.length, cachedTokens: null };
    const turn = { text: sample.text, finish: sample.finish, stopReason: sample.stopReason, usage };
    return sample.text === call?.text ? { ...turn, content: call.content, toolCalls: call.toolCalls } : turn;
  }

  /** The next turn. `drawnAt`: offset of the sampled span, null if nothing was sampled. */
  #write(
    protocol: WrittenProtocol,
    transcript: string,
    sampling: Sampling,
    canSearch = true,
  ): { text: string; drawnAt: number | null; logProb: number } {
    const question = (this.#question ??= onOneLine(protocol.question(this.#asked!)));
    const passages = protocol.passages(transcript);
    if (canSearch && passages.length === 0 && this.#searches < 2) {
      const query = this.#searches === 0 ? question : shorten(question);
      const thought = this.#searches === 0 ? 'I should look this up.' : 'That found nothing. I should search with fewer words.';
      this.#searches += 1;
      return { text: protocol.search(thought, query), drawnAt: null, logProb: 0 };
    }
    const candidates = findCandidates(parseQuestion(question), passages);
    if (candidates.length === 0) {
      const [before, after] = protocol.answer(canSearch ? 'The search found no answer.' : 'There is nothing to search with.');
      return { text: `${before}${NO_ANSWER}${after}`, drawnAt: null, logProb: 0 };
    }
    const scores = candidates.map((candidate) => candidate.score * SHARPNESS);
    const { index, logProb } = drawIndex(scores, sampling, this.#random);
    const [before, after] = protocol.answer('One of the passages seems to say it.');
    return { text: `${before}${candidates[index]!.text}${after}`, drawnAt: before.length, logProb };
  }
}

/** The tools' answers in the form of search results. */
function toolAnswers(messages: readonly Message[]): string {
  return messages.flatMap(({ role, content }) => (role === 'tool' ? [`<information>${contentText(content)}</information>`] : [])).join('\n');
}

interface SearchTool {
  readonly name: string;
  /** Name of the argument that takes the query. */
  readonly argument: string;
}

/** The first tool with a required free-text argument, preferably one whose name suggests searching; null if there is none. */
function searchToolOf(tools: readonly ToolSpec[]): SearchTool | null {
  const usable = tools.flatMap(({ name, parameters }) => {
    const argument = textArgument(parameters);
    return argument === null ? [] : [{ name, argument }];
  });
  return usable.find(({ name }) => /search|find|look|query/i.test(name)) ?? usable[0] ?? null;
}

function textArgument({ properties = {}, required = [] }: ToolSpec['parameters']): string | null {
  const schemas = properties as Readonly<Record<string, { readonly type?: unknown; readonly enum?: unknown } | undefined>>;
  const names = (Array.isArray(required) ? required : []) as readonly string[];
  return names.find((name) => schemas[name]?.type === 'string' && schemas[name].enum === undefined) ?? null;
}

function called({ name, argument }: SearchTool, query: string, turn: number): Required<Pick<TextSample, 'text' | 'content' | 'toolCalls'>> {
  const args = { [argument]: query };
  const call = { id: toolCallId(turn, 0), name, arguments: JSON.stringify(args) };
  const text = `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
  return { text, content: '', toolCalls: [call] };
}

function lastUserText(messages: readonly Message[]): string | null {
  const last = messages.findLast((message) => message.role === 'user');
  return last === undefined ? null : contentText(last.content);
}

class ExtractiveChat implements ChatLease {
  readonly kind = 'chat';
  readonly policy: PolicyRef;
  readonly #lease: ExtractiveLease;

  constructor(lease: ExtractiveLease) {
    this.policy = lease.policy;
    this.#lease = lease;
  }

  generate(request: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    return this.#lease.reply(request);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lease[Symbol.asyncDispose]();
  }
}

/**
 * Samples from softmax(scores / temperature), restricted to the most likely entries of total mass `topP`. Temperature 0 takes the best score, the
 * first if several are equal, with log-prob 0.
 */
export function drawIndex(scores: readonly number[], sampling: Sampling, random: Random): { index: number; logProb: number } {
  const { temperature, topP } = wholeSampling(sampling);
  const order = scores.map((_, i) => i).toSorted((a, b) => scores[b]! - scores[a]! || a - b);
  const best = order[0]!;
  if (temperature === 0) return { index: best, logProb: 0 };
  const weights = order.map((i) => Math.exp((scores[i]! - scores[best]!) / temperature));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let mass = 0;
  let count = 0;
  while (count < weights.length && (count === 0 || mass < topP * total)) mass += weights[count++]!;
  let left = random.float() * mass;
  let drawn = 0;
  while (drawn < count - 1 && (left -= weights[drawn]!) >= 0) drawn += 1;
  return { index: order[drawn]!, logProb: Math.log(weights[drawn]! / mass) };
}

/** Without angle brackets, which could spell a tag. */
function onOneLine(question: string): string {
  return question.replace(/[<>\s]+/g, ' ').trim();
}

/** The content words; if that does not shorten the question, its longest half of words. */
function shorten(question: string): string {
  const words = question
    .replace(/[^\p{L}\p{N}\p{M}'’-]+/gu, ' ')
    .trim()
    .split(' ');
  const content = words.filter((word) => !isStopWord(word));
  if (content.length > 0 && content.length < words.length) return content.join(' ');
  const longest = new Set(words.toSorted((a, b) => b.length - a.length).slice(0, Math.ceil(words.length / 2)));
  return words.filter((word) => longest.has(word)).join(' ');
}
