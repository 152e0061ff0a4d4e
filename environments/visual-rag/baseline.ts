/**
 * The built-in baseline: it searches for the question, cuts out the part that matches it best, and completes. A floor for comparisons, and a first run without a
 * model.
 */
import { contentText, type Message } from 'vf-search';
import type { Baseline } from 'vf-search/environment-kit';
import type { Area } from './boxes.ts';
import { questionOf } from './prompt.ts';
import { contentWords, plainWords } from './question-words.ts';
import { parsePictureText } from './reading.ts';

export const BOXING_BASELINE: Baseline = {
  name: 'boxing-baseline',
  description: 'it searches the question, cuts out the lines that share most words with it, and completes',
  reply,
};

function reply(messages: readonly Message[]): string {
  const question = questionOf(messages);
  const last = contentText(messages.at(-1)?.content ?? '');
  const picture = parsePictureText(last);
  const turns = messages.filter(({ role }) => role === 'assistant').length;
  if (turns === 0) return `<think>I search for the question.</think>\n<search>${question}</search>`;
  if (picture === null || picture.kind === 'crop') return '<think>I have looked.</think>\n<search_complete>true</search_complete>';
  const box = bestBox(picture.lines, question) ?? [0, 0, picture.size.width, picture.size.height];
  return `<think>I look closer.</think>\n<bbox>[${box.join(', ')}]</bbox>`;
}

/** The box around the lines that share most words with the question; around the text that cannot be read, if no line shares any. */
function bestBox(lines: readonly { readonly box: Area; readonly text: string }[], question: string): Area | null {
  const wanted = contentWords(question);
  const scored = lines.map(({ box, text }) => ({
    box,
    shared: plainWords(text).filter((word) => wanted.has(word)).length,
    isHidden: text.includes('?'),
  }));
  const most = Math.max(0, ...scored.map(({ shared }) => shared));
  const hidden = scored.filter(({ isHidden }) => isHidden);
  const chosen = hidden.length > lines.length / 2 ? hidden : scored.filter(({ shared }) => shared === most && most > 0);
  if (chosen.length === 0) return null;
  const side = (i: number, pick: (...values: number[]) => number) => pick(...chosen.map(({ box }) => box[i]!));
  return [side(0, Math.min), side(1, Math.min), side(2, Math.max), side(3, Math.max)];
}
