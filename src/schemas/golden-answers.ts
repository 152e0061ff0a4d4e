/**
 * Golden answers in the shapes that data sets have them. What cannot be one is refused, with the fix: an answer that no reply can equal would score 0 on every row
 * without a word.
 */
import { isObject } from './is-object.ts';
import { kindOf } from './kind-of.ts';

export type ReadAnswers = { readonly ok: true; readonly answers: readonly string[] } | { readonly ok: false; readonly problem: string };

const BLANK = 'a blank answer, which every text would contain; give the answer or leave it out';

/** Quoted texts in brackets as Python or JSON prints them: `["Paris", "Rome"]`, `['Paris' 'Rome']`, `('Paris', 'Rome')`, `{'value': 'Paris'}`. */
const PRINTED = /^\[[[\s(]*(["'])[^]*\1[\s,\])]*\]$|^array\(\[[^]*\][^]*\)$|^\(\s*(["'])[^]*\2\s*,[^]*\)$|^\{\s*(["'])[^]*\}$/;

/**
 * Text, a number, a list of these, TriviaQA's `{value, aliases}`, SQuAD's `{text: [...]}`, and with `choices` the places of choices, from 0 up, which become
 * their texts (FlashRAG, MMLU). PopQA's `possible_answers` is a list in JSON, as text.
 * @param name of the column, for the problem
 */
export function readGoldenAnswers(value: unknown, { name, choices }: { readonly name: string; readonly choices?: unknown }): ReadAnswers {
  const given = name === 'possible_answers' && typeof value === 'string' ? (jsonList(value) ?? value) : value;
  const listed = Array.isArray(given) ? given : isObject(given) ? answersIn(given) : [given];
  if (listed === null || listed.length === 0) return wrong(name, kindOf(given));
  const answers: string[] = [];
  for (const each of listed as readonly unknown[]) {
    if (typeof each !== 'string' && typeof each !== 'number')
      return wrong(name, Array.isArray(given) ? 'a list with something else in it' : kindOf(given));
    const answer = choices === undefined || choices === null ? { text: String(each) } : chosen(each, choices, name);
    if ('problem' in answer) return { ok: false, problem: answer.problem };
    if (answer.text.trim() === '') return { ok: false, problem: `expected answers in "${name}", got ${BLANK}` };
    if (PRINTED.test(answer.text.trim()))
      return {
        ok: false,
        problem: `expected answers in "${name}", got a list written as text, which no reply can equal; write a list, such as ["Paris", "Rome"]`,
      };
    answers.push(answer.text);
  }
  return { ok: true, answers };
}

function wrong(name: string, got: string): ReadAnswers {
  return { ok: false, problem: `expected "${name}" to be text or a list of at least one text, got ${got}` };
}

function answersIn({ value, aliases, text }: Readonly<Record<string, unknown>>): readonly unknown[] | null {
  if (Array.isArray(text)) return text;
  if (typeof value !== 'string') return null;
  return [...new Set([value, ...(Array.isArray(aliases) ? (aliases as unknown[]) : [])])];
}

function jsonList(text: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The text of a choice, if the answer is its place. A letter or a text that is given as the answer stays the answer. */
function chosen(answer: string | number, choices: unknown, name: string): { readonly text: string } | { readonly problem: string } {
  const listed = isObject(choices) && Array.isArray(choices['text']) ? choices['text'] : choices;
  const texts: readonly unknown[] = Array.isArray(listed) ? listed : isObject(listed) ? Object.values(listed) : [];
  const isText = texts.some((choice) => String(choice) === String(answer));
  const isPlace = typeof answer === 'number' || (/^\d+$/.test(answer) && !isText);
  if (!isPlace) return { text: answer };
  const choice: unknown = Array.isArray(listed) && !isText ? texts[Number(answer)] : undefined;
  if (typeof choice === 'string') return { text: choice };
  return {
    problem: `expected "${name}" to be the text of a choice or its place among the ${texts.length} choices, from 0 up, got ${answer}; give the text`,
  };
}
