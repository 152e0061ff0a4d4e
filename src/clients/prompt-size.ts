import { PolicyError } from '../core/errors.ts';
import type { Usage } from '../core/sampling.ts';

/**
 * Watches the prompts of one conversation, which only grows. A server that counts fewer tokens than before has left out its beginning: Ollama does so with every prompt that
 * exceeds its window, and answers as if nothing had happened.
 */
export class PromptSize {
  readonly #where: string;
  #largest = 0;
  /** Tokens of the turns with thoughts, which a template may drop from earlier turns. */
  #mayDrop = 0;

  constructor(where: string) {
    this.#where = where;
  }

  /** Throws PolicyError if the prompt shrank by more than the template can have dropped. */
  grow({ promptTokens, completionTokens, cachedTokens }: Usage, hasThoughts: boolean): void {
    // Some gateways count cached tokens apart, so that they may be more than the others.
    const prompt = promptTokens + ((cachedTokens ?? 0) > promptTokens ? cachedTokens! : 0);
    if (promptTokens > 0 && prompt + this.#mayDrop < this.#largest) {
      throw new PolicyError(
        `${this.#where} read ${promptTokens} tokens of a conversation that had ${this.#largest} before: it leaves out the beginning of long prompts. ` +
          `Raise its window (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or shorten the episodes`,
      );
    }
    this.#largest = Math.max(this.#largest, promptTokens);
    if (hasThoughts) this.#mayDrop += completionTokens;
  }
}
