/**
 * What a session has answered over Responses, so that a later request can name an item (`item_reference`) or an answer (`previous_response_id`) by its id. Items stay, because the
 * policy wrote them; the requests behind answers that were not named for longest are forgotten once all together hold too much.
 */
import { fieldsOf } from '../../schemas/is-object.ts';
import type { ItemStore } from './responses-request.ts';

type Fields = Readonly<Record<string, unknown>>;

interface StoredAnswer {
  readonly answer: Fields;
  /** The id of the answer before, to which the request added its input. */
  readonly previous: string | null;
  readonly input: readonly unknown[];
  readonly characters: number;
}

/** Characters of requests that a session keeps: a whole conversation in a window of a million tokens. */
const MOST_CHARACTERS = 2 ** 22;

export class ResponseStore implements ItemStore {
  readonly #mostCharacters: number;
  /** In the order of their last use. */
  readonly #answers = new Map<string, StoredAnswer>();
  readonly #items = new Map<string, Fields>();
  #characters = 0;

  /** @param mostCharacters default 4,194,304 */
  constructor(mostCharacters: number = MOST_CHARACTERS) {
    this.#mostCharacters = mostCharacters;
  }

  item(id: string): Fields | undefined {
    return this.#items.get(id);
  }

  response(id: string): readonly unknown[] | undefined {
    const lists: (readonly unknown[])[] = [];
    for (let at: string | null = id; at !== null;) {
      const stored: StoredAnswer | null = this.#used(at);
      if (stored === null) return undefined;
      lists.push(outputOf(stored), stored.input);
      at = stored.previous;
    }
    return lists.toReversed().flat();
  }

  /** The answer as it was written; undefined if there is none of this id. */
  answer(id: string): Fields | undefined {
    return this.#used(id)?.answer;
  }

  /**
   * Keeps an answer, unless its request says `store: false`.
   * @param body of the request
   * @param characters of the body as text
   */
  keep(body: unknown, answer: Fields, characters: number): void {
    const { store, input, previous_response_id: before } = fieldsOf(body);
    if (store === false) return;
    const id = String(answer['id']);
    const stored: StoredAnswer = {
      answer,
      previous: typeof before === 'string' ? before : null,
      input: typeof input === 'string' ? [{ role: 'user', content: input }] : (input as readonly unknown[]),
      characters,
    };
    this.#answers.set(id, stored);
    for (const item of outputOf(stored)) this.#items.set(String(fieldsOf(item)['id']), fieldsOf(item));
    this.#characters += characters;
    for (const [oldest, { characters: held }] of this.#answers) {
      if (this.#characters <= this.#mostCharacters || oldest === id) break;
      this.#answers.delete(oldest);
      this.#characters -= held;
    }
  }

  #used(id: string): StoredAnswer | null {
    const stored = this.#answers.get(id);
    if (stored === undefined) return null;
    this.#answers.delete(id);
    this.#answers.set(id, stored);
    return stored;
  }
}

function outputOf({ answer }: StoredAnswer): readonly unknown[] {
  return answer['output'] as readonly unknown[];
}
