/**
 * The built-in baseline: no model, no network, no file. It searches the question, draws an answer span from the passages that came back
 * (extractive-score.ts says how spans are scored) and answers with it. It answers in Search-R1's format whatever it is asked.
 *
 * Its tokens are the bytes of UTF-8. The one thing drawn in an episode is the span, so its log-prob sits on the span's first token; every
 * other token is forced, log-prob 0. The numbers drawn depend on the seed and the lease's key alone, so runs repeat at any concurrency.
 */
import { throwIfAborted } from '../core/abort.ts';
import { ConfigError } from '../core/errors.ts';
import { contentText, type Message } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { toolCallId, type ToolSpec } from '../core/tool-calls.ts';
import { parsePassages } from './extractive-passages.ts';
import { findCandidates, parseQuestion } from './extractive-score.ts';
import { isStopWord } from './extractive-spans.ts';
import type {
  ChatLease,
  GenerateRequest,
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
 * Scores are multiplied by it before the softmax. Fitted by likelihood, they are lukewarm: on nq-mini's training rows a draw at temperature 1
 * would be right in 14 %; doubled it is right in 22 %, and the best span in 26 %.
 */
const SHARPNESS = 2;
const NAME = 'extractive-baseline';
const STOPPED = 'Stopped before the policy answered';
const NO_ANSWER = 'I do not know';
const SEARCH_R1_EXAMPLE = '<answer> Beijing </answer>. Question: ';

export interface ExtractiveOptions {
  /** @default 0 */
  readonly seed?: number;
  /** @default version 0 for ever */
  readonly versions?: PolicyVersions;
  /** `chat` plays environments whose observations are messages of their own. @default 'tokens' */
  readonly kind?: 'tokens' | 'chat';
}

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

  /** Without a key the stream of random numbers is that of the n-th lease. */
  async lease(signal: AbortSignal, { key }: { readonly key?: string } = {}): Promise<PolicyLease> {
    throwIfAborted(signal, STOPPED);
    const held = this.#versions.acquire();
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
  #question: string | null = null;
  #promptLength = 0;
  #searches = 0;

  constructor(policy: PolicyRef, random: Random, release: () => void) {
    this.policy = policy;
    this.#random = random;
    this.#release = release;
  }

  async render(messages: readonly Message[]): Promise<Int32Array> {
    this.#question = questionOf(lastUserText(messages) ?? joinContents(messages));
    const ids = byteTokenizer.encodePrompt(joinContents(messages));
    this.#promptLength = ids.length;
    return ids;
  }

  async renderNext(): Promise<Int32Array> {
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
    this.#question ??= questionOf(byteTokenizer.decode(prompt));
    const { text, drawnAt, logProb } = this.#write(byteTokenizer.decode(cut ? prompt : prompt.subarray(this.#promptLength)), sampling);
    const sample = sampleOf(byteTokenizer.encodeSampled(text), stop, maxNewTokens ?? Infinity);
    const logProbs = new Float64Array(sample.ids.length);
    const drawnToken = drawnAt === null ? -1 : Buffer.byteLength(text.slice(0, drawnAt));
    if (drawnToken >= 0 && drawnToken < logProbs.length) logProbs[drawnToken] = logProb;
    return { ...sample, logProbs, usage: { promptTokens: prompt.length, completionTokens: sample.ids.length, cachedTokens: null } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#release();
  }

  /** The next turn, read from messages: the first ones up to the first reply are the prompt. */
  async reply({ prompt, sampling, maxNewTokens, stop, tools = [], signal }: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    throwIfAborted(signal, STOPPED);
    const firstReply = prompt.findIndex((message) => message.role === 'assistant');
    const asked = firstReply < 0 ? prompt : prompt.slice(0, firstReply);
    this.#question ??= questionOf(lastUserText(asked) ?? joinContents(asked));
    const search = searchToolOf(tools);
    const canSearch = tools.length === 0 || search !== null;
    const { text } = this.#write(tools.length === 0 ? joinContents(prompt.slice(asked.length)) : toolAnswers(prompt), sampling, canSearch);
    const query = search === null ? undefined : /<search> (.*) <\/search>$/s.exec(text)?.[1];
    const call = search === null || query === undefined ? null : called(search, query, prompt.length);
    const sample = sampleOf(byteTokenizer.encodeSampled(call?.text ?? text), stop, maxNewTokens ?? Infinity);
    const promptTokens = Buffer.byteLength(joinContents(prompt));
    const usage = { promptTokens, completionTokens: sample.ids.length, cachedTokens: null };
    const said = { text: sample.text, finish: sample.finish, stopReason: sample.stopReason, usage };
    return sample.text === call?.text ? { ...said, content: call.content, toolCalls: call.toolCalls } : said;
  }

  /** The next turn; `drawnAt` is the character where a drawn span begins. */
  #write(transcript: string, sampling: Sampling, canSearch = true): { text: string; drawnAt: number | null; logProb: number } {
    const question = this.#question!;
    const blocks = Array.from(transcript.matchAll(/<information>(.*?)(?:<\/information>|$)/gs), (match) => match[1]!);
    const passages = parsePassages(blocks);
    if (canSearch && passages.length === 0 && this.#searches < 2) {
      const query = this.#searches === 0 ? question : shorten(question);
      const thought = this.#searches === 0 ? 'I should look this up.' : 'That found nothing. I should search with fewer words.';
      this.#searches += 1;
      return { text: `<think> ${thought} </think>\n<search> ${query} </search>`, drawnAt: null, logProb: 0 };
    }
    const candidates = findCandidates(parseQuestion(question), passages);
    if (candidates.length === 0) {
      const thought = canSearch ? 'The search found no answer.' : 'There is nothing to search with.';
      return { text: `<think> ${thought} </think>\n<answer> ${NO_ANSWER} </answer>`, drawnAt: null, logProb: 0 };
    }
    const scores = candidates.map((candidate) => candidate.score * SHARPNESS);
    const { index, logProb } = drawIndex(scores, sampling, this.#random);
    const head = '<think> One of the passages seems to say it. </think>\n<answer> ';
    return { text: `${head}${candidates[index]!.text} </answer>`, drawnAt: head.length, logProb };
  }
}

/** What tools answered, as a search would have shown it. */
function toolAnswers(messages: readonly Message[]): string {
  return messages.flatMap(({ role, content }) => (role === 'tool' ? [`<information>${contentText(content)}</information>`] : [])).join('\n');
}

interface SearchTool {
  readonly name: string;
  /** The argument that takes the query. */
  readonly argument: string;
}

/** The first tool with a required argument of free text, one whose name speaks of searching before all others; null where there is none. */
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
 * Draws from the softmax of scores / temperature, kept to its likeliest part of mass `topP`; temperature 0 takes the best, the first of
 * equals, with certainty.
 */
export function drawIndex(scores: readonly number[], { temperature, topP }: Sampling, random: Random): { index: number; logProb: number } {
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

/** What follows "Question: " in Search-R1's prompt, else the last thing a prompt asks with "Question: ", else all of it; on one line, without brackets. */
function questionOf(prompt: string): string {
  const example = prompt.indexOf(SEARCH_R1_EXAMPLE);
  const label = prompt.lastIndexOf('Question: ');
  const start = example >= 0 ? example + SEARCH_R1_EXAMPLE.length : label >= 0 ? label + 'Question: '.length : 0;
  return prompt
    .slice(start)
    .replace(/[<>\s]+/g, ' ')
    .trim();
}

/** The words that say something; the longest half of them when that is all there is. */
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
