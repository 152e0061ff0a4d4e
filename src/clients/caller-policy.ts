/**
 * A policy that another program owns: each generation is a question to a caller, which samples and answers. The rollout loop cannot tell it from a server,
 * so the rollouts of another trainer's model are recorded like any others.
 */
import { cancelled, eitherSignal, throwIfAborted, untilAborted } from '../core/abort.ts';
import { ConfigError, PolicyError, PromptTooLongError } from '../core/errors.ts';
import type { Message, RenderedTokens } from '../core/message.ts';
import type { EncodedText } from '../tokenizer/policy-tokenizer.ts';
import type { Random } from '../core/random.ts';
import type { LocalTokenizer } from '../tokenizer/known-tokenizer.ts';
import {
  assertLogProbs,
  assertTokens,
  type CallerAnswer,
  type CallerQuestion,
  type ChatAnswer,
  type ChatQuestion,
  sampleOfIds,
  type TokenAnswer,
  type TokenQuestion,
} from './caller-sample.ts';
import type {
  ChatLease,
  GenerateRequest,
  LeaseOptions,
  PolicyCapabilities,
  PolicyClient,
  PolicyLease,
  PolicyRef,
  RenderNextOptions,
  RenderOptions,
  TextSample,
  TokenLease,
  TokenSample,
  Usage,
} from './policy-client.ts';
import { PolicyVersions } from './policy-versions.ts';
import { PromptGrowth } from './prompt-growth.ts';
import { restoreStop } from './restore-stop.ts';

/** The rollout that asks. */
export interface CallerContext {
  /** The version of the policy that the rollout leased. */
  readonly policy: PolicyRef;
  /** The rollout's own generator, for a caller that samples here and must sample the same again; null outside a run. */
  readonly random: Random | null;
  /** The request by token ids; null in a chat. */
  readonly request: Pick<GenerateRequest<Int32Array>, 'prompt' | 'sampling'> | null;
  /** The rollout's name, `<example id>/<index>`; null outside a run. */
  readonly key: string | null;
  /** Aborts when the rollout ends without an answer. */
  readonly signal: AbortSignal;
}

/** Hands a question to the caller and resolves with its answer. A rejection fails the rollout. */
export type AskCaller = (question: CallerQuestion, context: CallerContext) => Promise<CallerAnswer>;

interface CallerPolicyBase {
  readonly ask: AskCaller;
  /** @default 'caller' */
  readonly name?: string;
  /** @default a fixed version 0; an answer's own version replaces it on the record */
  readonly versions?: PolicyVersions;
  /** The caller's window in tokens. @default null, unknown */
  readonly maxModelLen?: number | null;
  /** Called when a rollout needs no further sample, before it is scored. @default does nothing */
  readonly onPlayed?: (key: string | null) => void;
}

export type CallerPolicyOptions = CallerPolicyBase &
  (
    | {
        readonly kind: 'tokens';
        /** The tokenizer of the caller's model: prompts and observations become ids here, sampled ids become text here. */
        readonly tokenizer: LocalTokenizer;
        /** The abilities of the tokenizer's chat template and the tokenizer's hash, if they are known. */
        readonly traits?: Partial<Pick<PolicyCapabilities, 'tokenizerHash' | 'chatTemplate' | 'toolCalls' | 'beginsWithBos' | 'closingTokenId'>>;
      }
    | { readonly kind: 'chat' }
  );

/** The usage of a caller that does not count tokens. */
const UNCOUNTED: Usage = { promptTokens: 0, completionTokens: 0, cachedTokens: null };
const WANTED: Readonly<Record<CallerQuestion['kind'], string>> = { tokens: 'token ids', chat: 'text' };
const STOPPED = 'Stopped before the caller answered';

/**
 * A policy whose samples a caller brings, by token ids or by messages.
 * @example
 * const policy = new CallerPolicy({ kind: 'chat', ask: async ({ messages }) => ({ kind: 'chat', text: await myModel(messages), finish: 'stop' }) });
 */
export class CallerPolicy implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #options: CallerPolicyOptions;
  readonly #versions: PolicyVersions;
  readonly #closed = new AbortController();

  constructor(options: CallerPolicyOptions) {
    const { name = 'caller', maxModelLen = null, versions } = options;
    this.#options = options;
    this.name = name;
    this.#versions = versions ?? new PolicyVersions({ version: 0, model: name });
    this.capabilities =
      options.kind === 'chat'
        ? { kind: 'chat', maxModelLen, tokenizerHash: null, logProbsMode: 'none', toolCalls: 'hermes' }
        : { kind: 'tokens', maxModelLen, tokenizerHash: null, logProbsMode: 'unknown', ...options.traits };
  }

  async lease(signal: AbortSignal, { key, random, like }: LeaseOptions = {}): Promise<PolicyLease> {
    throwIfAborted(signal, STOPPED);
    if (this.#closed.signal.aborted) throw new PolicyError('The client is closed');
    const held = this.#versions.acquire(like?.policy);
    const caller = new Caller(this.#options, { key, random, held, maxModelLen: this.capabilities.maxModelLen, closed: this.#closed.signal });
    return this.#options.kind === 'chat' ? new CallerChatLease(caller) : new CallerTokenLease(caller, this.#options.tokenizer);
  }

  async close(): Promise<void> {
    this.#closed.abort(new PolicyError('The client is closed'));
  }
}

interface CallerParts {
  readonly key: string | undefined;
  readonly random: Random | undefined;
  readonly held: { readonly ref: PolicyRef; release(): void };
  readonly maxModelLen: number | null;
  readonly closed: AbortSignal;
}

/** The questions of one rollout, one after the other. */
class Caller {
  readonly maxModelLen: number | null;
  readonly #options: CallerPolicyOptions;
  readonly #parts: CallerParts;
  #policy: PolicyRef;
  #turn = 0;
  /** What the environment said of the last turn. */
  turnReward: number | null = null;
  #state: 'idle' | 'asking' | 'released' = 'idle';

  constructor(options: CallerPolicyOptions, parts: CallerParts) {
    this.#options = options;
    this.#parts = parts;
    this.#policy = parts.held.ref;
    this.maxModelLen = parts.maxModelLen;
  }

  /** Number of questions that were answered. */
  get turn(): number {
    return this.#turn;
  }

  /** The version of the last answer that had one. */
  get policy(): PolicyRef {
    return this.#policy;
  }

  async ask(question: TokenQuestion, signal: AbortSignal, request: NonNullable<CallerContext['request']>): Promise<TokenAnswer>;
  async ask(question: ChatQuestion, signal: AbortSignal): Promise<ChatAnswer>;
  async ask(question: CallerQuestion, signal: AbortSignal, request: CallerContext['request'] = null): Promise<CallerAnswer> {
    throwIfAborted(signal, STOPPED);
    if (this.#state !== 'idle') {
      throw new PolicyError(
        this.#state === 'asking'
          ? 'The lease is generating already. Await that generation before the next one.'
          : 'The lease was disposed, so it cannot generate. Take a new lease.',
      );
    }
    const { key = null, random = null, held, closed } = this.#parts;
    using either = eitherSignal(signal, closed);
    this.#state = 'asking';
    try {
      const asked = this.turnReward === null ? question : { ...question, turnReward: this.turnReward };
      const answering = this.#options.ask(asked, { key, policy: held.ref, random, request, signal: either.signal });
      const answer = await untilAborted(answering, either.signal, () => (signal.aborted ? cancelled(signal, STOPPED) : closed.reason));
      if (answer.kind !== question.kind) {
        throw new PolicyError(
          `The caller was asked for ${WANTED[question.kind]} and answered with ${WANTED[answer.kind]}. Answer in the kind of the question.`,
        );
      }
      this.#turn += 1;
      this.turnReward = null;
      const { version = null } = answer;
      if (version !== null) this.#policy = { ...this.#policy, version };
      return answer;
    } finally {
      if (this.#state === 'asking') this.#state = 'idle';
    }
  }

  release(): void {
    if (this.#state === 'released') return;
    this.#state = 'released';
    this.#parts.held.release();
    this.#options.onPlayed?.(this.#parts.key ?? null);
  }
}

class CallerTokenLease implements TokenLease {
  readonly kind = 'tokens';
  readonly #caller: Caller;
  readonly #tokenizer: LocalTokenizer;
  readonly #growth = new PromptGrowth();
  /** Tokens of the prompt of the turn before. */
  #length = 0;
  /** The token that ends a turn in the chat template; null in continuation format. */
  #closingToken: number | null = null;

  constructor(caller: Caller, tokenizer: LocalTokenizer) {
    this.#caller = caller;
    this.#tokenizer = tokenizer;
  }

  get policy(): PolicyRef {
    return this.#caller.policy;
  }

  async render(messages: readonly Message[], options: RenderOptions = {}): Promise<RenderedTokens> {
    const rendered = ownTokens(await this.#tokenizer.render(messages, options));
    if (options.format !== 'continuation') this.#closingToken = await this.#tokenizer.closingToken();
    return rendered;
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<RenderedTokens> {
    return ownTokens(await this.#tokenizer.renderNext(history, next, options));
  }

  async encode(text: string): Promise<Int32Array> {
    return (await this.#tokenizer.encode(text)).ids.slice();
  }

  decode(ids: Int32Array): Promise<string> {
    return this.#tokenizer.decode(ids);
  }

  async generate({ prompt, stop, maxNewTokens, sampling, cut = false, signal }: GenerateRequest<Int32Array>): Promise<TokenSample> {
    throwIfAborted(signal, STOPPED);
    this.#growth.extendTo(prompt, cut);
    const { maxModelLen } = this.#caller;
    if (maxModelLen !== null && prompt.length >= maxModelLen) {
      throw new PromptTooLongError(`The prompt has ${prompt.length} tokens, but the caller's window has only ${maxModelLen}`);
    }
    const appendIds = prompt.slice(cut ? 0 : this.#length);
    const { vocabularySize, bytes } = this.#tokenizer;
    const { turn } = this.#caller;
    const question: TokenQuestion = { kind: 'tokens', turn, stop, maxNewTokens, appendIds, contextLength: prompt.length };
    const answer = await this.#caller.ask(question, signal, { prompt, sampling });
    this.#length = prompt.length;
    assertTokens(question, answer, vocabularySize);
    assertLogProbs(answer.logProbs);
    const sample = sampleOfIds(answer, { bytes, prompt, stop, closingToken: this.#closingToken });
    return { ...sample, usage: { promptTokens: prompt.length, completionTokens: sample.ids.length, cachedTokens: null } };
  }

  onTurnReward(reward: number | null): void {
    this.#caller.turnReward = reward;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#caller.release();
  }
}

class CallerChatLease implements ChatLease {
  readonly kind = 'chat';
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  get policy(): PolicyRef {
    return this.#caller.policy;
  }

  async generate({ prompt, stop, maxNewTokens, tools = [], prefill, signal }: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    if (prefill !== undefined) throw new ConfigError('A caller cannot continue a turn that is already open. Play this environment by token ids.');
    const question: ChatQuestion = { kind: 'chat', turn: this.#caller.turn, stop, maxNewTokens, messages: prompt, tools };
    const { text, finish, stopReason, usage = UNCOUNTED } = await this.#caller.ask(question, signal);
    const kept = restoreStop(text, { named: stopReason, isCut: finish === 'length' }, stop);
    const end = typeof kept.stopReason === 'string' ? 'stop' : finish;
    return { text: kept.text, finish: end, stopReason: kept.stopReason, usage, ...(kept.isGuess ? { stopIsGuess: true } : {}) };
  }

  onTurnReward(reward: number | null): void {
    this.#caller.turnReward = reward;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#caller.release();
  }
}

/** Cached ids are shared, and a caller may change its array. */
function ownTokens({ ids, opening }: EncodedText): RenderedTokens {
  return { ids: ids.slice(), images: [], ...(opening === undefined ? {} : { opening }) };
}
