/**
 * A policy that plays given turns: for tests, dry runs and benchmarks without a model. It behaves like a server: stop strings, length limits,
 * a window, log-probs, usage.
 */
import { throwIfAborted } from '../core/abort.ts';
import { PolicyError, PromptTooLongError } from '../core/errors.ts';
import { contentText, type Message, type RenderedTokens } from '../core/message.ts';
import type { GenerateRequest, LeaseOptions, PolicyCapabilities, PolicyClient, PolicyLease, TextSample, TokenSample } from './policy-client.ts';
import { PolicyVersions } from './policy-versions.ts';
import { PromptGrowth } from './prompt-growth.ts';
import { byteTokenizer, codePointTokenizer, type TextTokenizer } from './text-tokenizer.ts';
import { joinContents, sampleOf } from './written-sample.ts';

const STOPPED = 'Stopped before the policy answered';

/** The arguments of a script function. */
export interface ScriptedTurn {
  /** 0 for the first generation of the lease. */
  readonly index: number;
  /** Token mode: the rendered messages without the policy's own turns; empty if none were rendered. Chat mode: the messages of the request. */
  readonly messages: readonly Message[];
  /** The token prompt; null in chat mode. */
  readonly ids: Int32Array | null;
  /** The rollout's name, as passed to `lease`. */
  readonly key: string | null;
}

export interface ScriptedOptions {
  /**
   * The turns of every lease in order, or a function that writes a turn; it may throw any error that a client may throw. Text after a stop string
   * or beyond the length limit is never sampled.
   */
  readonly turns: readonly string[] | ((turn: ScriptedTurn) => string | Promise<string>);
  /** @default 'tokens' */
  readonly kind?: 'tokens' | 'chat';
  /** @default 'bytes' */
  readonly tokenizer?: 'bytes' | 'code-points' | TextTokenizer;
  /** Natural-log probability of token `index` of a turn. @default -1 for every token */
  readonly logProb?: number | ((index: number, id: number, turn: ScriptedTurn) => number);
  /** The window in tokens. @default null, unlimited */
  readonly maxModelLen?: number | null;
  /** The chat template. @default the contents joined by blank lines */
  readonly template?: (messages: readonly Message[]) => string;
  /** The way it calls tools. @default 'hermes' */
  readonly toolCalls?: PolicyCapabilities['toolCalls'];
  /** @default 'scripted' */
  readonly name?: string;
  /** @default a fixed version 0 */
  readonly versions?: PolicyVersions;
}

/** A policy that plays a script. @example new ScriptedClient({ kind: 'chat', turns: ['<search> heron </search>', '<answer> grey </answer>'] }) */
export class ScriptedClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #options: ScriptedOptions;
  readonly #tokenizer: TextTokenizer;
  readonly #versions: PolicyVersions;

  constructor(options: ScriptedOptions) {
    const { kind = 'tokens', tokenizer = 'bytes', maxModelLen = null, name = 'scripted', toolCalls = 'hermes' } = options;
    this.#options = options;
    this.#tokenizer = tokenizer === 'bytes' ? byteTokenizer : tokenizer === 'code-points' ? codePointTokenizer : tokenizer;
    this.#versions = options.versions ?? new PolicyVersions({ version: 0, model: name });
    this.name = name;
    this.capabilities =
      kind === 'chat'
        ? { kind, maxModelLen, tokenizerHash: null, logProbsMode: 'none', toolCalls, prefill: true, images: true }
        : { kind, maxModelLen, tokenizerHash: this.#tokenizer.hash, logProbsMode: 'raw', lengthScale: this.#tokenizer.lengthScale, toolCalls };
  }

  async lease(signal: AbortSignal, { key = null, like }: { readonly key?: string | null } & Pick<LeaseOptions, 'like'> = {}): Promise<PolicyLease> {
    throwIfAborted(signal, STOPPED);
    const held = this.#versions.acquire(like?.policy);
    const script = new Script(this.#options, this.#tokenizer, key);
    const base = { policy: held.ref, [Symbol.asyncDispose]: async () => held.release() };
    if (this.capabilities.kind === 'chat') return { ...base, kind: 'chat', generate: (request) => script.chat(request) };
    return {
      ...base,
      kind: 'tokens',
      render: async (messages) => script.render(messages),
      renderNext: async (history, next, { isClosed = false } = {}) => ({ ids: script.renderNext(history, next, isClosed), images: [] }),
      encode: async (text) => this.#tokenizer.encode(text),
      decode: async (ids) => this.#tokenizer.decode(ids),
      generate: (request) => script.tokens(request),
    };
  }

  async close(): Promise<void> {}
}

/** The script as played by one lease. */
class Script {
  readonly #options: ScriptedOptions;
  readonly #tokenizer: TextTokenizer;
  readonly #key: string | null;
  readonly #growth = new PromptGrowth();
  #messages: readonly Message[] = [];
  #index = 0;

  constructor(options: ScriptedOptions, tokenizer: TextTokenizer, key: string | null) {
    this.#options = options;
    this.#tokenizer = tokenizer;
    this.#key = key;
  }

  render(messages: readonly Message[]): RenderedTokens {
    this.#messages = messages;
    const { template = joinContents } = this.#options;
    const text = template(messages);
    const [, opening = ''] = OPENED_TURN.exec(text) ?? [];
    return { ids: this.#tokenizer.encodePrompt(text), images: [], ...(opening === '' ? {} : { opening }) };
  }

  renderNext(history: readonly Message[], next: readonly Message[], isClosed: boolean): Int32Array {
    this.#messages = [...history, ...next];
    return this.#tokenizer.encodePrompt(chatmlBridge(next, { isClosed }));
  }

  async chat(request: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    const promptTokens = this.#tokenizer.encodePrompt(joinContents(request.prompt)).length;
    const turn = { index: this.#index++, messages: request.prompt, ids: null, key: this.#key };
    const { text, finish, stopReason, usage } = await this.#sample(turn, request, promptTokens);
    return { text, finish, stopReason, usage };
  }

  async tokens(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    this.#growth.extendTo(request.prompt, request.cut);
    const turn = { index: this.#index++, messages: this.#messages, ids: request.prompt, key: this.#key };
    const sample = await this.#sample(turn, request, request.prompt.length);
    const { logProb = -1 } = this.#options;
    const logProbs = new Float64Array(sample.ids.length);
    if (typeof logProb === 'number') logProbs.fill(logProb);
    else for (let i = 0; i < logProbs.length; i++) logProbs[i] = logProb(i, sample.ids[i]!, turn);
    return { ...sample, logProbs };
  }

  async #sample(turn: ScriptedTurn, request: GenerateRequest<unknown>, promptTokens: number): Promise<Omit<TokenSample, 'logProbs'>> {
    throwIfAborted(request.signal, STOPPED);
    const { turns, maxModelLen } = this.#options;
    const room = (maxModelLen ?? Infinity) - promptTokens;
    if (room < 1) throw new PromptTooLongError(`The prompt has ${promptTokens} tokens, but the window has only ${maxModelLen}`);
    const written = typeof turns === 'function' ? await turns(turn) : turns[turn.index];
    if (written === undefined) throw new PolicyError(`The script has only ${turns.length} turns, but another was requested`);
    throwIfAborted(request.signal, STOPPED);
    const cut = sampleOf(this.#tokenizer.encodeSampled(written), request.stop, Math.min(room, request.maxNewTokens ?? Infinity));
    return { ...cut, usage: { promptTokens, completionTokens: cut.ids.length, cachedTokens: null } };
  }
}

/** A turn of ChatML that the template has opened, with what it wrote into it. */
const OPENED_TURN = /<\|im_start\|>assistant\n((?:(?!<\|im_)[^])*)$/;

function chatmlBridge(next: readonly Message[], { isClosed }: { readonly isClosed: boolean }): string {
  const turns = next.map(({ role, content }) => `<|im_start|>${role}\n${contentText(content)}<|im_end|>\n`);
  return `${isClosed ? '' : '<|im_end|>'}\n${turns.join('')}<|im_start|>assistant\n`;
}
