/**
 * The policy and tokenizer of the transcript vectors: one token per Unicode code point, but one for each ChatML control token; generations
 * come from a script. Like upstream's sampler it knows no stop string and decodes without control tokens.
 */
import type { GenerateRequest, Message, TokenLease, TokenSample } from 'vf-search';

const CONTROL = ['<|im_start|>', '<|im_end|>', '<|endoftext|>'];
const FIRST_CONTROL_ID = 0x110000;
const CONTROL_OR_CHARACTER = /<\|im_start\|>|<\|im_end\|>|<\|endoftext\|>|[^]/gu;

/** Ids of a text, control tokens included. */
export function encodePrompt(text: string): Int32Array {
  const pieces = text.match(CONTROL_OR_CHARACTER) ?? [];
  return Int32Array.from(pieces, (piece) => {
    const control = CONTROL.indexOf(piece);
    return control === -1 ? piece.codePointAt(0)! : FIRST_CONTROL_ID + control;
  });
}

export function decodeAll(ids: Iterable<number>): string {
  let text = '';
  for (const id of ids) text += id < FIRST_CONTROL_ID ? String.fromCodePoint(id) : CONTROL[id - FIRST_CONTROL_ID]!;
  return text;
}

export class CodePointLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy = { version: 0, model: 'script' };
  /** What each generation saw. */
  readonly contexts: string[] = [];
  readonly #turns: string[];
  readonly #promptText: string;

  /** Plays `turns` in order, then nothing. Renders every prompt as the one text given. */
  constructor(turns: readonly string[], promptText: string) {
    this.#turns = [...turns];
    this.#promptText = promptText;
  }

  async render(_messages: readonly Message[]): Promise<Int32Array> {
    return encodePrompt(this.#promptText);
  }

  async encode(text: string): Promise<Int32Array> {
    return Int32Array.from(text, (character) => character.codePointAt(0)!);
  }

  async decode(ids: Int32Array): Promise<string> {
    return decodeAll(ids);
  }

  async generate({ prompt, maxNewTokens }: GenerateRequest<Int32Array>): Promise<TokenSample> {
    this.contexts.push(decodeAll(prompt));
    const all = encodePrompt(this.#turns.shift() ?? '');
    const ids = all.subarray(0, maxNewTokens ?? all.length);
    let text = '';
    const textEnds = ids.map((id) => (text += id < FIRST_CONTROL_ID ? String.fromCodePoint(id) : '').length);
    const usage = { promptTokens: prompt.length, completionTokens: ids.length, cachedTokens: null };
    const finish = ids.length < all.length ? 'length' : 'stop';
    return { text, tail: '', ids, logProbs: new Float64Array(ids.length), textEnds, finish, stopReason: null, usage };
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
