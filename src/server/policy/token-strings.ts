/**
 * Single tokens as text, as vLLM shows them with log-probs: a token that leaves a character incomplete is '', and the token that completes it gets the whole
 * character. Special tokens are spelled out.
 */
import type { ModelTokenizer } from '../../tokenizer/tokenizer-types.ts';
import type { TokenLogProb } from '../../engine/engine-types.ts';

/** A character has at most 4 bytes in UTF-8. */
const MAX_CONTEXT = 4;

export class TokenStrings {
  readonly #tokenizer: ModelTokenizer;
  readonly #alone = new Map<number, string>();

  constructor(tokenizer: ModelTokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** `before`: the preceding tokens; only the last four matter. */
  string(id: number, before: ArrayLike<number>): string {
    const alone = this.#decodeOne(id);
    if (!alone.endsWith('\uFFFD')) return alone;
    for (let count = 1; count <= Math.min(before.length, MAX_CONTEXT); count++) {
      const context = Array.from({ length: count }, (_, i) => before[before.length - count + i]!);
      const whole = this.#decode([...context, id]);
      if (whole.endsWith('\uFFFD')) continue;
      // The bytes of incomplete tokens before this one belong to it.
      const clean = context.findLastIndex((one) => !this.#decodeOne(one).endsWith('\uFFFD')) + 1;
      return withoutPrefix(whole, clean === 0 ? '' : this.#decode(context.slice(0, clean)));
    }
    return '';
  }

  /** Strings of all tokens of a sequence. */
  strings(ids: Int32Array): string[] {
    return Array.from(ids, (id, i) => this.string(id, ids.subarray(Math.max(0, i - MAX_CONTEXT), i)));
  }

  #decodeOne(id: number): string {
    let text = this.#alone.get(id);
    if (text === undefined) this.#alone.set(id, (text = this.#decode([id])));
    return text;
  }

  #decode(ids: readonly number[]): string {
    return this.#tokenizer.decode(Int32Array.from(ids), { skipSpecialTokens: false });
  }
}

/** JSON has no infinity; like vLLM, sends -9999 for minus infinity. */
export function wireLogProb(logProb: number): number {
  return Math.max(logProb, -9999);
}

/** Each token once, by rank; the input may contain the sampled token twice. */
export function byRank(alternatives: readonly TokenLogProb[]): readonly TokenLogProb[] {
  return [...new Map(alternatives.map((one) => [one.id, one])).values()].toSorted((a, b) => a.rank - b.rank);
}

function withoutPrefix(text: string, prefix: string): string {
  let shared = 0;
  while (shared < prefix.length && text[shared] === prefix[shared]) shared++;
  return text.slice(shared);
}
