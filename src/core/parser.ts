/**
 * Extracts an answer from text; this base class takes the whole text. A parser never throws. Pass only text that the model wrote: a tag inside a
 * retrieved document is not the model's.
 */
export class Parser {
  /** Rewards read thoughts and their tags: those that a chat API returns outside the text, or that the chat template writes, are put before the turn. @default false */
  get readsThoughts(): boolean {
    return false;
  }

  /** The answer in the text; null if there is none. */
  parseAnswer(text: string): string | null {
    return text;
  }

  /** Scores how well a message follows the parser's format, from 0 to 1; 1 if it has no format. */
  formatReward(_text: string): number {
    return 1;
  }
}

/** For models that reason between `<think>` and `</think>`: the answer is the text after the last `</think>`. */
export class ThinkParser extends Parser {
  override get readsThoughts(): boolean {
    return true;
  }

  /** Null if there is no `</think>`. */
  override parseAnswer(text: string): string | null {
    const end = text.lastIndexOf('</think>');
    return end === -1 ? null : text.slice(end + '</think>'.length).trim();
  }

  /** 1 if the message begins with its only `<think>`, closes it once, and has text after it; else 0 (as verifiers v0). */
  override formatReward(text: string): number {
    const end = text.indexOf('</think>');
    const isOnce = text.indexOf('<think>') === text.lastIndexOf('<think>') && end === text.lastIndexOf('</think>');
    return text.trim().startsWith('<think>') && end !== -1 && isOnce && text.length > end + '</think>'.length ? 1 : 0;
  }
}

/** A `ThinkParser` that takes the whole text if there is no reasoning (verifiers: MaybeThinkParser). */
export class MaybeThinkParser extends ThinkParser {
  override parseAnswer(text: string): string | null {
    return super.parseAnswer(text) ?? text.trim();
  }

  override formatReward(text: string): number {
    return text.includes('<think>') || text.includes('</think>') ? super.formatReward(text) : 1;
  }
}
