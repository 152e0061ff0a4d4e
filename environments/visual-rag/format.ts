/** The format gate (DDAI, `simple_format_checker`): every turn thinks once and acts once, and the last one completes the search. */
import { strip } from 'vf-search/metrics/python-text';
import { findBlock } from 'vf-search/metrics/tag-blocks';
import { pythonJson } from './python-values.ts';

const OPEN_TURN = '<|im_start|>assistant';
const END_TURN = '<|im_end|>';

export interface FormatVerdict {
  readonly pass: boolean;
  /** In upstream's words; turns count from 0. Null on a pass. */
  readonly reason: string | null;
}

/** The assistant's turns in a ChatML text; the whole text if it has none. */
export function assistantTurns(text: string): string[] {
  const turns: string[] = [];
  for (let from = 0; ;) {
    const start = text.indexOf(OPEN_TURN, from);
    const end = start === -1 ? -1 : text.indexOf(END_TURN, start + OPEN_TURN.length);
    if (end === -1) break;
    turns.push(text.slice(start + OPEN_TURN.length, end));
    from = end + END_TURN.length;
  }
  return turns.length === 0 ? [text] : turns;
}

/**
 * Tells whether the turns have the required form. A turn that is an `<answer>` alone is the generator's, and may only follow the last action.
 * @param turns the text of the assistant, a string for each turn
 */
export function checkFormat(turns: readonly string[]): FormatVerdict {
  const actions: { readonly index: number; readonly text: string }[] = [];
  const answers: number[] = [];
  for (const [index, turn] of turns.entries()) {
    const text = strip(turn);
    const hasAnswer = text.includes('<answer>') || text.includes('</answer>');
    if (countActions(text) > 0) {
      if (hasAnswer) return failed(`Turn ${index} contains <answer> inside action turn`);
      actions.push({ index, text });
    } else if (!hasAnswer) return failed(`Turn ${index} missing action tag`);
    else if (text.startsWith('<answer>') && text.endsWith('</answer>')) answers.push(index);
    else return failed(`Turn ${index} contains malformed/mixed <answer> block`);
  }
  const last = actions.at(-1);
  if (last === undefined) return failed('No action turns found');
  for (const { index, text } of actions) {
    const problem = turnProblem(text);
    if (problem !== null) return failed(`Turn ${index} ${problem}`);
  }
  if (!last.text.includes('<search_complete>')) return failed('Last action turn missing <search_complete>');
  if (answers.some((index) => index < last.index)) return failed('Answer block appears before search_complete');
  return { pass: true, reason: null };
}

/** The fault of a turn that acts; null if there is none. */
function turnProblem(text: string): string | null {
  const quoted = `${Array.from(text).slice(0, 50).join('')}...`;
  if (!text.startsWith('<think>')) return `missing <think> start tag. ${quoted}`;
  if (count(text, '<think>') !== 1 || count(text, '</think>') !== 1) return `incorrect <think> tag count. ${quoted}`;
  const actions = countActions(text);
  if (actions !== 1) return `invalid action count (${actions})`;
  if (text.includes('<search>')) return strip(findBlock(text, 'search')?.content ?? '') === '' ? 'empty/malformed <search>' : null;
  if (text.includes('<bbox>')) return boxProblem(findBlock(text, 'bbox')?.content ?? null);
  return text.replaceAll(' ', '').includes('<search_complete>true</search_complete>') ? null : '<search_complete> value error';
}

function boxProblem(content: string | null): string | null {
  if (content === null) return 'malformed <bbox>';
  const box = pythonJson(strip(content));
  if (box === undefined) return 'bbox JSON decode error';
  if (!Array.isArray(box) || box.length !== 4) return 'bbox format error (not length 4)';
  return box.every((one) => typeof one === 'number' || typeof one === 'boolean') ? null : 'bbox non-number values';
}

function countActions(text: string): number {
  return count(text, '<search>') + count(text, '<bbox>') + count(text, '<search_complete>');
}

function count(text: string, tag: string): number {
  return text.split(tag).length - 1;
}

function failed(reason: string): FormatVerdict {
  return { pass: false, reason };
}
