/** The reward or metric that is being computed, for messages. */
export class TermPlace {
  name: string | null = null;
  readonly #kind: string;

  constructor(kind: string) {
    this.#kind = kind;
  }

  get text(): string | null {
    return this.name === null ? null : `${this.#kind} "${this.name}" was being computed`;
  }
}
