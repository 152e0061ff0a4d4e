/**
 * Text to fields, total on any input: a parser never throws. Parse model-authored text only; a tag inside a retrieved document is not
 * the model's.
 */
export class Parser {
  /** The answer in the text, or null. The base parser takes the whole text. */
  parseAnswer(text: string): string | null {
    return text;
  }

  /** How well one message keeps to the format, 0 to 1. The base parser asks for none. */
  formatReward(_text: string): number {
    return 1;
  }
}

/** For models that reason between `<think>` and `</think>`: the answer is what follows the last `</think>`. */
export class ThinkParser extends Parser {
  /** Null when the reasoning was never closed: what precedes `</think>` is no answer. */
  override parseAnswer(text: string): string | null {
    const end = text.lastIndexOf('</think>');
    return end === -1 ? null : text.slice(end + '</think>'.length).trim();
  }

  /** 1 when the message opens with its only `<think>`, closes it once, and says something after; else 0 (as verifiers v0). */
  override formatReward(text: string): number {
    const end = text.indexOf('</think>');
    const isOnce = text.indexOf('<think>') === text.lastIndexOf('<think>') && end === text.lastIndexOf('</think>');
    return text.trim().startsWith('<think>') && end !== -1 && isOnce && text.length > end + '</think>'.length ? 1 : 0;
  }
}

/** A `ThinkParser` that takes the whole text where the model did not think (verifiers' MaybeThinkParser). */
export class MaybeThinkParser extends ThinkParser {
  override parseAnswer(text: string): string | null {
    return super.parseAnswer(text) ?? text.trim();
  }

  override formatReward(text: string): number {
    return text.includes('<think>') || text.includes('</think>') ? super.formatReward(text) : 1;
  }
}
