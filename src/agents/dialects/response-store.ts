/**
 * What a session has answered over Responses, so that a later request can name an item (`item_reference`) or an answer (`previous_response_id`) by its id. What was not named for
 * longest is forgotten once all together hold too much: first answers, each with the input of its request, because clients name the items of a conversation to its end.
 */
import { fieldsOf } from '../../schemas/is-object.ts';
import type { ItemStore } from './dialect.ts';

type Fields = Readonly<Record<string, unknown>>;

interface StoredAnswer {
  readonly answer: Fields;
  /** The id of the answer before, to which the request added its input. */
  readonly previous: string | null;
  readonly input: readonly unknown[];
}

/** A whole conversation in a window of a million tokens. */
const MOST_CHARACTERS = 2 ** 22;

export class ResponseStore implements ItemStore {
  readonly #answers: HeldValues<StoredAnswer>;
  readonly #items: HeldValues<Fields>;

  /** @param mostCharacters of answers with their requests, and of items. @default 4,194,304 each */
  constructor(mostCharacters: number = MOST_CHARACTERS) {
    this.#answers = new HeldValues(mostCharacters);
    this.#items = new HeldValues(mostCharacters);
  }

  item(id: string): Fields | undefined {
    return this.#items.get(id);
  }

  response(id: string): readonly unknown[] | undefined {
    const lists: (readonly unknown[])[] = [];
    for (let at: string | null = id; at !== null;) {
      const stored: StoredAnswer | undefined = this.#answers.get(at);
      if (stored === undefined) return undefined;
      lists.push(outputOf(stored.answer), stored.input);
      at = stored.previous;
    }
    return lists.toReversed().flat();
  }

  /** The answer as it was written; undefined if there is none of this id. */
  answer(id: string): Fields | undefined {
    return this.#answers.get(id)?.answer;
  }

  /**
   * Keeps an answer, unless its request says `store: false`.
   * @param body of the request
   * @param characters of the body as text
   */
  keep(body: unknown, answer: Fields, characters: number): void {
    const { store, input, previous_response_id: before } = fieldsOf(body);
    if (store === false) return;
    let written = characters;
    for (const item of outputOf(answer)) {
      const length = JSON.stringify(item).length;
      this.#items.put(String(fieldsOf(item)['id']), fieldsOf(item), length);
      written += length;
    }
    const stored = {
      answer,
      previous: typeof before === 'string' ? before : null,
      input: typeof input === 'string' ? [{ role: 'user', content: input }] : (input as readonly unknown[]),
    };
    this.#answers.put(String(answer['id']), stored, written);
  }
}

/** Values by their ids, up to a number of characters; the last one stays in any case. */
class HeldValues<V> {
  readonly #mostCharacters: number;
  /** In the order of their last use. */
  readonly #held = new Map<string, { readonly value: V; readonly characters: number }>();
  #characters = 0;

  constructor(mostCharacters: number) {
    this.#mostCharacters = mostCharacters;
  }

  get(id: string): V | undefined {
    const held = this.#held.get(id);
    if (held === undefined) return undefined;
    this.#held.delete(id);
    this.#held.set(id, held);
    return held.value;
  }

  put(id: string, value: V, characters: number): void {
    this.#held.set(id, { value, characters });
    this.#characters += characters;
    for (const [oldest, held] of this.#held) {
      if (this.#characters <= this.#mostCharacters || oldest === id) break;
      this.#held.delete(oldest);
      this.#characters -= held.characters;
    }
  }
}

function outputOf(answer: Fields): readonly unknown[] {
  return answer['output'] as readonly unknown[];
}
