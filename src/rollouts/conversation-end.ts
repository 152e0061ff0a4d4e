/** Where a conversation by token ids goes on: all that the policy has read and said in it, so that a further turn costs what is new in it. */
import type { TokenLease } from '../clients/policy-client.ts';
import type { Message, PlacedImage, RenderedTokens } from '../core/message.ts';
import { type AgentNode, pathOf, type TurnTokens } from './agent-turns.ts';

/** Copies only what is new. */
export class GrowingIds {
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

export class ConversationEnd {
  readonly lease: TokenLease;
  /** As later prompts read them. */
  readonly messages: Message[];
  /** Number of the policy's turns. */
  turns: number;
  /** In order. */
  images: readonly PlacedImage[];
  readonly #ids = new GrowingIds();

  /** @param turn the last one; null at the beginning */
  constructor(lease: TokenLease, turn: AgentNode | null) {
    const path = turn === null ? [] : pathOf(turn);
    const said = { before: turn, given: new Int32Array(0), images: [] };
    this.lease = lease;
    this.messages = path.map(({ message, turn: own }) => message ?? own!.answer!.played.message);
    this.turns = path.filter(({ turn: own }) => own !== null).length;
    this.images = imagesOf(said, this.#ids.push(promptOf(said)).length);
  }

  /** Adds what stands before a turn. Returns the whole prompt. */
  read(messages: readonly Message[], { ids, images }: RenderedTokens): Int32Array {
    for (const message of messages) this.messages.push(message);
    const prompt = this.#ids.push(ids);
    const start = prompt.length - ids.length;
    if (images.length > 0) this.images = [...this.images, ...images.map((image) => ({ ...image, offset: start + image.offset }))];
    return prompt;
  }

  /** Adds a turn. */
  say(message: Message, ids: Int32Array): void {
    this.messages.push(message);
    this.#ids.push(ids);
    this.turns += 1;
  }
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
