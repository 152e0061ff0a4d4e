import { PolicyError } from '../core/errors.ts';
import type { Usage } from '../core/sampling.ts';

/**
 * Watches the prompts of one conversation, which only grows. A server that counts fewer tokens than before has left out its beginning: Ollama does so with every prompt that
 * exceeds its window, and answers as if nothing had happened.
 */
export class PromptSize {
  readonly #where: string;
  #largest = 0;
  /** Everything that the model wrote; a template may drop the thoughts among it. */
  #written = 0;

  constructor(where: string) {
    this.#where = where;
  }

  /** Throws PolicyError if the prompt shrank by more than the template can have dropped. */
  grow({ promptTokens, completionTokens, cachedTokens }: Usage): void {
    // Some gateways count cached tokens apart.
    const prompt = promptTokens + (cachedTokens ?? 0);
    if (promptTokens > 0 && prompt + this.#written < this.#largest) {
      throw new PolicyError(
        `${this.#where} read ${promptTokens} tokens of a conversation that had ${this.#largest} before: it leaves out the beginning of long prompts. ` +
          `Raise its window (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or shorten the episodes`,
      );
    }
    this.#largest = Math.max(this.#largest, promptTokens);
    this.#written += completionTokens;
  }
}
