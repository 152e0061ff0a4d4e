/** Demonstrations in the form of DDAI's files: `{uid, format_version: "v1", messages}`, messages as JSON text. Pure. */
import { strip } from '../metrics/python-text.ts';
import type { MessageV1 } from '../schemas/messages-v1.ts';

/** Text in messages that replace a tool's missing result. */
const SYSTEM_ERROR = '[System Error:';
export const NO_SEARCH_RESULT = `${SYSTEM_ERROR} Search did not return an image. Please try a different query.]`;
export const NO_CROP = `${SYSTEM_ERROR} BBox crop failed. Please adjust the bbox or search again.]`;

const SEARCH = /<search>(.*?)<\/search>/gisu;
const COMPLETE = /<search_complete>\s*true\s*<\/search_complete>/iu;
const BOX = /<bbox>\s*\[(.*?)\]\s*<\/bbox>/gisu;

/** Messages of the user that report a tool's failure. */
export function systemErrors(messages: readonly MessageV1[]): number {
  return messages.filter(({ role, content }) => role === 'user' && typeof content === 'string' && content.includes(SYSTEM_ERROR)).length;
}

interface Effort {
  readonly searches: number;
  readonly boxes: number;
  /** Code points of the assistant's messages. */
  readonly length: number;
}

/** The text of the first message by the user; empty without one. */
export function questionOf(messages: readonly MessageV1[]): string {
  const texts = messages.flatMap(({ role, content }) => (role === 'user' && typeof content === 'string' ? [content] : []));
  return texts[0] ?? '';
}

export function assistantTexts(messages: readonly MessageV1[]): string[] {
  return messages.flatMap(({ role, content }) => (role === 'assistant' && typeof content === 'string' ? [content] : []));
}

/** True if the text ends the search. */
export function completesSearch(text: string): boolean {
  return COMPLETE.test(text);
}

/** The contents of the assistant's searches and boxes, in order; empty ones are left out. */
export function actionsOf(messages: readonly MessageV1[]): { readonly queries: readonly string[]; readonly boxes: readonly string[] } {
  const written = assistantTexts(messages);
  const found = (pattern: RegExp) =>
    written.flatMap((text) => [...text.matchAll(pattern)].map(([, inner]) => strip(inner!)).filter((inner) => inner !== ''));
  return { queries: found(SEARCH), boxes: found(BOX) };
}

/** Counts the assistant's actions; empty searches and boxes do not count. */
function effortOf(messages: readonly MessageV1[]): Effort {
  const written = assistantTexts(messages);
  const { queries, boxes } = actionsOf(messages);
  return { searches: queries.length, boxes: boxes.length, length: written.reduce((sum, text) => sum + Array.from(text).length, 0) };
}

export interface RankedRow {
  readonly uid: string;
  /** Id of the prompt. */
  readonly prompt: string;
  /** Null if the row does not say it. */
  readonly ndcg: number | null;
  readonly messages: readonly MessageV1[];
}

/** The prompt of a row that does not name it: its uid without the index and the run at its end. */
export function promptOf(uid: string): string {
  return uid.replace(/__s\d+(?:__[^_]*)?$/u, '');
}

/**
 * The best rows of every prompt, at most `most` each: by the highest NDCG, then the fewest searches, then the fewest boxes, then the shortest. Prompts in the order
 * of their first rows.
 */
export function bestRows<R extends RankedRow>(rows: readonly R[], most: number): R[] {
  const byPrompt = Map.groupBy(rows, ({ prompt }) => prompt);
  return [...byPrompt.values()].flatMap((group) =>
    group
      .map((row) => ({ row, effort: effortOf(row.messages) }))
      .toSorted(
        (a, b) =>
          (b.row.ndcg ?? 0) - (a.row.ndcg ?? 0) ||
          a.effort.searches - b.effort.searches ||
          a.effort.boxes - b.effort.boxes ||
          a.effort.length - b.effort.length,
      )
      .slice(0, most)
      .map(({ row }) => row),
  );
}
