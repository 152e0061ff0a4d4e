/** One choice of a streamed answer: tracks what has been sent. */
import type { Generation, GenerationDelta } from '../../engine/engine-types.ts';
import type { JudgedTokens } from './completion-answer.ts';

export interface ChoicePart extends JudgedTokens {
  readonly text: string;
  /** Tokens of this choice before the part; only the last four matter. */
  readonly before: Int32Array;
  readonly isFirst: boolean;
  /** Number of tokens of this choice so far, including the part. */
  readonly tokens: number;
}

export class ChoiceStream {
  #sent = 0;
  #textSent = 0;
  #parts = 0;
  #last = new Int32Array(0);

  /** Null if there is nothing to send. */
  next({ ids, text, logProbs, alternatives }: GenerationDelta): ChoicePart | null {
    return ids.length === 0 && text === '' ? null : this.#part({ ids, text, logProbs, alternatives });
  }

  /** The unsent rest of a finished generation, possibly empty. */
  rest({ ids, text, logProbs, alternatives }: Generation): ChoicePart {
    const from = this.#sent;
    const part = { ids: ids.subarray(from), text: text.slice(this.#textSent), logProbs: logProbs.subarray(from) };
    return this.#part({ ...part, alternatives: alternatives?.slice(from) ?? null });
  }

  #part(part: JudgedTokens & { readonly text: string }): ChoicePart {
    const isFirst = this.#parts === 0;
    const before = this.#last;
    this.#parts += 1;
    this.#sent += part.ids.length;
    this.#textSent += part.text.length;
    this.#last = Int32Array.of(...before, ...part.ids.subarray(-4)).subarray(-4);
    return { ...part, before, isFirst, tokens: this.#sent };
  }
}
