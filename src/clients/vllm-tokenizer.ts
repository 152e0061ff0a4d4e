/**
 * The tokenizer of a vLLM server, over HTTP: its own chat template, its own vocabulary. Text of an environment or a data set can never
 * become a control token, whatever it spells: a spelled one is tokenised with a private-use character inside, whose ids are then removed.
 *
 * Which ids are control tokens, no route of vLLM tells. It shows in what they do: a completion whose only allowed token is a special one
 * has that token's string but no text. So an id whose spelling looks like a tag is tried once; added tokens that are not special
 * (`<think>`, `<search>`) pass and stay single tokens.
 */
import { LRUCache } from 'lru-cache';
import { PolicyError } from '../core/errors.ts';
import type { Message } from '../core/message.ts';
import { VllmCompletionShape, VllmDetokenizeShape, VllmTokenizeShape } from '../schemas/vllm.ts';
import type { VllmServer } from './vllm-server.ts';

export interface EncodedText {
  readonly ids: Int32Array;
  /** Control tokens that the text spelled and that were broken up. */
  readonly neutralised: number;
}

/** Where a text is tokenised, under which model, for how long. */
export interface TokenizerCall {
  readonly server: VllmServer;
  readonly model: string;
  readonly signal: AbortSignal;
}

interface GuardedText {
  /** The text with a sentinel inside every spelled control token. */
  readonly text: string;
  readonly breaks: number;
  /** Of the guarded text. */
  readonly ids: readonly number[];
}

/** Characters of text kept in the cache. */
const CACHED_CHARS = 8 * 2 ** 20;
/** What vLLM and transformers say of a tokenizer without one; a template that refuses a conversation says something else. */
const NO_TEMPLATE = /default chat template is no longer allowed|must provide a chat template|chat_template is not set|no chat template/i;

export class VllmTokenizer {
  readonly #encoded = new LRUCache<string, Promise<EncodedText>>({ maxSize: CACHED_CHARS, sizeCalculation: (_, text) => text.length });
  readonly #isControl = new Map<number, Promise<boolean>>();
  readonly #sentinelIds = new Map<string, Promise<readonly number[]>>();
  #hasTemplate: boolean | null;

  /** `hasChatTemplate`: null finds out with the first prompt. */
  constructor(hasChatTemplate: boolean | null) {
    this.#hasTemplate = hasChatTemplate;
  }

  /** Null until a prompt was rendered. */
  get hasTemplate(): boolean | null {
    return this.#hasTemplate;
  }

  /** Tokenised alone, without BOS. Lone surrogates become U+FFFD first: the server refuses them. */
  encode(text: string, call: TokenizerCall): Promise<EncodedText> {
    const wellFormed = text.toWellFormed();
    if (wellFormed === '') return Promise.resolve({ ids: new Int32Array(0), neutralised: 0 });
    const cached = this.#encoded.get(wellFormed);
    if (cached !== undefined) return cached;
    const encoded = this.#encode(wellFormed, call);
    this.#encoded.set(wellFormed, encoded);
    encoded.catch(() => this.#encoded.delete(wellFormed));
    return encoded;
  }

  /** Text of ids that `encode` gave. */
  async decode(ids: Int32Array, { server, model, signal }: TokenizerCall): Promise<string> {
    if (ids.length === 0) return '';
    return (await server.post('/detokenize', { model, tokens: [...ids] }, VllmDetokenizeShape, signal)).prompt;
  }

  /** The chat template's rendering with the generation prompt; the bare text, as upstream, where the tokenizer has no template. */
  async render(messages: readonly Message[], call: TokenizerCall): Promise<EncodedText> {
    if (this.#hasTemplate !== false) {
      const rendered = await this.#renderTemplate(messages, call);
      if (rendered !== null) return rendered;
    }
    return this.encode(messages.map(({ content }) => content).join('\n\n'), call);
  }

  async #encode(text: string, call: TokenizerCall): Promise<EncodedText> {
    const sentinel = sentinelFor(text);
    const { breaks, ids } = await this.#guard(text, sentinel, call);
    return this.#withoutSentinels(ids, breaks, sentinel, call);
  }

  /** Null when the tokenizer has no chat template. */
  async #renderTemplate(messages: readonly Message[], call: TokenizerCall): Promise<EncodedText | null> {
    const { server, model, signal } = call;
    const wellFormed = messages.map((message) => ({ ...message, content: message.content.toWellFormed() }));
    const sentinel = sentinelFor(wellFormed.map(({ content }) => content).join(''));
    const guarded = await Promise.all(wellFormed.map(({ content }) => this.#guard(content, sentinel, call)));
    const wire = wellFormed.map((message, i) => wireMessage({ ...message, content: guarded[i]!.text }));
    const fields = { model, messages: wire, add_generation_prompt: true, add_special_tokens: false };
    try {
      const { tokens } = await server.post('/tokenize', fields, VllmTokenizeShape, signal);
      this.#hasTemplate = true;
      const breaks = guarded.reduce((sum, content) => sum + content.breaks, 0);
      return await this.#withoutSentinels(tokens, breaks, sentinel, call);
    } catch (error) {
      if (this.#hasTemplate === true || !saysNoTemplate(error)) throw error;
      this.#hasTemplate = false;
      return null;
    }
  }

  /** Breaks up control tokens until the text gives none. One round finds them, one more shows that they are gone. */
  async #guard(text: string, sentinel: string, call: TokenizerCall): Promise<GuardedText> {
    let guarded = text;
    for (let breaks = 0; ;) {
      const { ids, spellings } = await tokenize(guarded, call);
      const spelled = await this.#controlsIn(guarded, ids, spellings, call);
      if (spelled.length === 0) return { text: guarded, breaks, ids };
      for (const spelling of spelled) {
        const [first = ''] = spelling;
        const parts = guarded.split(spelling);
        guarded = parts.join(`${first}${sentinel}${spelling.slice(first.length)}`);
        breaks += parts.length - 1;
      }
    }
  }

  /** Spellings of the control tokens among `ids`, as far as the text spells them: an "unknown" token is the tokenizer's own word. */
  async #controlsIn(text: string, ids: readonly number[], spellings: readonly (string | null)[], call: TokenizerCall): Promise<string[]> {
    const found: string[] = [];
    const seen = new Set<number>();
    for (const [i, id] of ids.entries()) {
      const spelling = spellings[i]?.replace(/^[\s▁Ġ]+/, '') ?? '';
      if (seen.has(id) || !looksLikeControl(spelling)) continue;
      seen.add(id);
      if (text.includes(spelling) && (await this.#checkControl(id, spelling, call))) found.push(spelling);
    }
    return found;
  }

  #checkControl(id: number, spelling: string, call: TokenizerCall): Promise<boolean> {
    const known = this.#isControl.get(id);
    if (known !== undefined) return known;
    const check = tryControl(id, spelling, call);
    this.#isControl.set(id, check);
    check.catch(() => this.#isControl.delete(id));
    return check;
  }

  async #withoutSentinels(ids: readonly number[], breaks: number, sentinel: string, call: TokenizerCall): Promise<EncodedText> {
    if (breaks === 0) return { ids: Int32Array.from(ids), neutralised: 0 };
    let mark = this.#sentinelIds.get(sentinel);
    if (mark === undefined) {
      mark = tokenize(sentinel, call).then((alone) => alone.ids.filter((_, i) => alone.spellings[i] !== '▁'));
      this.#sentinelIds.set(sentinel, mark);
      mark.catch(() => this.#sentinelIds.delete(sentinel));
    }
    const { kept, removed } = removeAll(ids, await mark);
    if (removed !== breaks) {
      throw new PolicyError(
        `Expected the tokenizer of ${call.server.url} to keep ${breaks} private-use characters apart, got ${removed}; ` +
          'this text spells control tokens and cannot be encoded without them',
      );
    }
    return { ids: Int32Array.from(kept), neutralised: breaks };
  }
}

/** Every special token known is a tag of some kind: `<|im_end|>`, `</s>`, `[INST]`, `<｜User｜>`, `<EOT>`, `]~b]`. */
function looksLikeControl(spelling: string): boolean {
  return /^[<[{(|｜〈«\]].*[\p{L}\p{N}].*[>\]})|｜〉»[]$/su.test(spelling);
}

function saysNoTemplate(error: unknown): boolean {
  return error instanceof PolicyError && error.status === 400 && NO_TEMPLATE.test(error.message);
}

async function tokenize(text: string, { server, model, signal }: TokenizerCall): Promise<{ ids: number[]; spellings: readonly (string | null)[] }> {
  const fields = { model, prompt: text, add_special_tokens: false, return_token_strs: true };
  const { tokens, token_strs: spellings } = await server.post('/tokenize', fields, VllmTokenizeShape, signal);
  if (spellings?.length === tokens.length) return { ids: tokens, spellings };
  throw new PolicyError(`Expected ${server.where('/tokenize')} to spell each of ${tokens.length} tokens, got ${spellings?.length ?? 'none'}`);
}

/** Asks the server to sample this very id: a special one has a string but no text. Servers that cannot be made to sample it: by the spelling. */
async function tryControl(id: number, spelling: string, { server, model, signal }: TokenizerCall): Promise<boolean> {
  const fields = { model, prompt: [id], max_tokens: 1, temperature: 0, logprobs: 0, return_token_ids: true, allowed_token_ids: [id] };
  try {
    const [choice] = (await server.post('/v1/completions', fields, VllmCompletionShape, signal)).choices;
    if (choice?.token_ids[0] === id) return choice.text === '';
  } catch (error) {
    if (!(error instanceof PolicyError) || error.status !== 400) throw error;
  }
  return /^<[|｜].*[|｜]>$|^<\/?s>$|^\[\/?[A-Z_]+\]$/s.test(spelling);
}

/** A private-use character that the text does not hold: no vocabulary entry contains one, so its ids never merge with a neighbour's. */
function sentinelFor(text: string): string {
  let code = 0xe0f0;
  while (text.includes(String.fromCharCode(code)) && code < 0xf8ff) code++;
  return String.fromCharCode(code);
}

function removeAll(ids: readonly number[], mark: readonly number[]): { kept: number[]; removed: number } {
  const kept: number[] = [];
  let removed = 0;
  for (let i = 0; i < ids.length;) {
    if (mark.length > 0 && mark.every((id, k) => ids[i + k] === id)) {
      removed += 1;
      i += mark.length;
    } else kept.push(ids[i++]!);
  }
  return { kept, removed };
}

function wireMessage({ role, content, toolCalls, toolCallId }: Message): Record<string, unknown> {
  const calls = toolCalls?.map((call) => ({ id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments } }));
  return { role, content, ...(calls === undefined ? {} : { tool_calls: calls }), ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }) };
}
