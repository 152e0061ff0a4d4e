import { PolicyError } from '../core/errors.ts';
import type { Usage } from '../core/sampling.ts';

/** No model has a smaller window by default; servers that count nothing report smaller numbers. */
const SMALLEST_WINDOW = 512;
const REMEDY = 'Raise its window (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or shorten the episodes';

/**
 * Watches the prompts of one conversation, which only grows. A server that counts fewer tokens than before has left out its beginning: Ollama does so with every prompt that
 * exceeds its window, and answers as if nothing had happened. If even the first prompt exceeds it, all counts are the window's.
 */
export class PromptSize {
  readonly #where: string;
  #largest = 0;
  /** Tokens and messages of the latest prompt. */
  #latest = { tokens: 0, messages: 0 };
  /** Tokens of the turns with thoughts, which a template may drop from earlier turns. */
  #mayDrop = 0;

  constructor(where: string) {
    this.#where = where;
  }

  /**
   * `messages`: those of the prompt. Returns a remark if it has as many tokens as the one before, although it has more messages; else null. Throws PolicyError if the prompt
   * shrank by more than the template can have dropped.
   */
  grow(
    { promptTokens, completionTokens, cachedTokens }: Usage,
    { hasThoughts, messages }: { readonly hasThoughts: boolean; readonly messages: number },
  ): string | null {
    // Some gateways count cached tokens apart, so that they may be more than the others.
    const prompt = promptTokens + ((cachedTokens ?? 0) > promptTokens ? cachedTokens! : 0);
    if (promptTokens > 0 && prompt + this.#mayDrop < this.#largest) {
      throw new PolicyError(
        `${this.#where} read ${promptTokens} tokens of a conversation that had ${this.#largest} before: it leaves out the beginning of long prompts. ${REMEDY}`,
      );
    }
    const stays = prompt >= SMALLEST_WINDOW && prompt === this.#latest.tokens && messages > this.#latest.messages;
    this.#latest = { tokens: prompt, messages };
    this.#largest = Math.max(this.#largest, promptTokens);
    if (hasThoughts) this.#mayDrop += completionTokens;
    return stays
      ? `${this.#where} read ${prompt} tokens of a conversation before and after it grew: it may leave out the beginning of long prompts. ${REMEDY}.`
      : null;
  }
}
