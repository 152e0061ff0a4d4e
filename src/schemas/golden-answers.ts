/**
 * Golden answers in the shapes that data sets have them. What cannot be one is refused, with the fix: an answer that no reply can equal would score 0 on every row
 * without a word.
 */
import { choiceOf } from './row-choices.ts';
import { isObject } from './is-object.ts';
import { jsonOrNull } from './json-or-null.ts';
import { kindOf } from './kind-of.ts';

export type ReadAnswers = { readonly ok: true; readonly answers: readonly string[] } | { readonly ok: false; readonly problem: string };

export interface ReadAnswersOptions {
  /** Of the column, for the problem. */
  readonly name: string;
  /** Those that the row offers, in any form. @default none */
  readonly choices?: unknown;
  /** Further spellings of the answer, such as MuSiQue's `answer_aliases`. @default none */
  readonly aliases?: unknown;
  /** The text that the model sees. If it lists the choices, the letter of one stays the answer. @default none */
  readonly question?: string | undefined;
  /** The model sees the choices with letters and answers with one, which the place of a choice then becomes. @default false */
  readonly isLettered?: boolean;
}

const BLANK = 'a blank answer, which every text would contain; give the answer or leave it out';

/** Quoted texts in brackets, and bytes, as Python, numpy or JSON prints them: `["Paris", 'Rome']`, `['Paris' 'Rome']`, `('Paris', 'Rome')`, `{'value': 'Paris'}`, `b'Paris'`. */
const PRINTED =
  /^\[[[\s(]*(?:[bu]|np\.\w+\()?["'][^]*["'][\s,\])]*\]$|^\[\s*(?:None|nan|NaN|null|True|False)\b[^]*\]$|^\[[^]*["'],?\s+(?:None|nan|null)\s*\]$|^array\(\[(?=[^]*\])[^]*\)$|^\(\s*(["'])(?=[^]*\1\s*,)[^]*\)$|^\{\s*(["'])[^]*\}$|^b(["'])[^]*\3$/;

/** What programs write for a value that is missing, and lists whose items have lost their quotes. Each may be an answer, too. */
const DOUBTFUL =
  /^(?:nan|none|null|nat|n\/a|<na>|undefined|set\(\)|\[\s*\])$|^\[[^[\]\p{L}]*\p{L}[^[\],]*,[^[\]]*\]$|^\[\s*[\d.+-]+(?:\s+[\d.+-]+)+\s*\]$/iu;

/**
 * Text, a number, a list of these, TriviaQA's `{value, aliases}`, SQuAD's `{text: [...]}`, and with `choices` the places of choices, from 0 up, their labels or
 * letters, which become their texts (FlashRAG, MMLU, ARC). PopQA's `possible_answers` is a list in JSON, as text.
 */
export function readGoldenAnswers(value: unknown, { name, aliases, ...offered }: ReadAnswersOptions): ReadAnswers {
  const given = name === 'possible_answers' && typeof value === 'string' ? (jsonList(value) ?? value) : value;
  const listed = Array.isArray(given) ? given : isObject(given) ? answersIn(given) : [given];
  if (listed === null || listed.length === 0) return wrong(name, kindOf(given));
  const answers: string[] = [];
  for (const each of Array.isArray(aliases) ? [...listed, ...(aliases as unknown[])] : (listed as readonly unknown[])) {
    if (typeof each !== 'string' && typeof each !== 'number')
      return wrong(name, Array.isArray(given) ? 'a list with something else in it' : kindOf(given));
    if (typeof each === 'number' && !Number.isFinite(each)) return wrong(name, `${each}, which is not a number`);
    const answer = (offered.choices ?? null) === null ? { text: String(each) } : choiceOf(each, { ...offered, choices: offered.choices, name });
    if ('problem' in answer) return { ok: false, problem: answer.problem };
    if (answer.text.trim() === '') return { ok: false, problem: `expected answers in "${name}", got ${BLANK}` };
    if (PRINTED.test(answer.text.trim()))
      return {
        ok: false,
        problem: `expected answers in "${name}", got a list written as text, which no reply can equal; write a list, such as ["Paris", "Rome"]`,
      };
    answers.push(answer.text);
  }
  return { ok: true, answers: Array.isArray(aliases) ? [...new Set(answers)] : answers };
}

/**
 * A line about answers that look like missing values or like lists without quotes, such as `nan` and `[Paris, Rome]`; none without such answers.
 * @param rows each with its name for the message, such as `the row q1`
 */
export function doubtfulNotices(rows: Iterable<{ readonly where: string; readonly answers: readonly string[] }>): string[] {
  let count = 0;
  let first = '';
  for (const { where, answers } of rows)
    for (const answer of answers) {
      if (!DOUBTFUL.test(answer.trim())) continue;
      count += 1;
      first ||= `${JSON.stringify(answer)} of ${where}`;
    }
  if (count === 0) return [];
  const subject = count === 1 ? '1 golden answer looks like a missing value or a list' : `${count} golden answers look like missing values or lists`;
  return [
    `${subject} written as text: ${first}${count === 1 ? '' : ', ...'}. Replies are compared with that text. Correct it, unless it is the answer.`,
  ];
}

function wrong(name: string, got: string): ReadAnswers {
  return { ok: false, problem: `expected "${name}" to be text or a list of at least one text, got ${got}` };
}

/** Also with the capitals of TriviaQA's own files. */
function answersIn(fields: Readonly<Record<string, unknown>>): readonly unknown[] | null {
  const { text, value = fields['Value'], aliases = fields['Aliases'] } = fields;
  if (Array.isArray(text)) return text;
  if (typeof value !== 'string') return null;
  return [...new Set([value, ...(Array.isArray(aliases) ? (aliases as unknown[]) : [])])];
}

/** The list that a text holds in JSON; null for any other text. */
function jsonList(text: string): unknown[] | null {
  const value = jsonOrNull(text);
  return Array.isArray(value) ? value : null;
}
