/** Short forms of prompts: what a row asks, without the instructions that all rows share. */
import { listOf, textOf } from './recorded-parts.ts';

const SHOWN_CHARACTERS = 200;

/** The last message of the user, or the last one. */
export function askedText(prompt: unknown): string {
  const messages = listOf(prompt);
  return textOf((messages.findLast(({ role }) => role === 'user') ?? messages.at(-1))?.['content']);
}

export function shortened(text: string): string {
  const line = text
    .slice(0, 4 * SHOWN_CHARACTERS)
    .replace(/\s+/g, ' ')
    .trim();
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS - 1)}…` : line;
}
