/**
 * Text to fields, total on any input: a parser never throws. Parse model-authored text only; a tag inside a retrieved document is not
 * the model's.
 */
export class Parser {
  /** The answer in the text, or null. The base parser takes the whole text. */
  parseAnswer(text: string): string | null {
    return text;
  }

  /** How well the text keeps to the format, 0 to 1. The base parser asks for none. */
  formatReward(_text: string): number {
    return 1;
  }
}
