/**
 * Questions in data sets on disk: the columns of FlashRAG, UltraRAG, HotpotQA, PopQA, TriviaQA, SQuAD, of Search-R1's and verl's Parquet files, and of files written
 * by hand; other names can be given.
 */
import { columnsIn } from './columns-in.ts';
import { type ReadAnswers, readGoldenAnswers } from './golden-answers.ts';
import { isObject } from './is-object.ts';
import { kindOf } from './kind-of.ts';

/** One question, ready for an environment. Further fields of the line (`metadata`, ...) are kept unchanged. */
export interface QuestionRow {
  /** Unique among the rows loaded together. */
  readonly id: string;
  readonly question: string;
  /** At least one, unless the rows were loaded without answers. */
  readonly golden_answers: readonly string[];
  /** The row's data set: `nq`, `hotpotqa`, `nq-mini`, ... */
  readonly data_source: string;
  /** Counts from 0 within one data source, as in upstream's scripts. */
  readonly index: number;
  /** In upstream's naming: `test` even if a source has only `dev`. */
  readonly split: 'train' | 'test';
  readonly [field: string]: unknown;
}

/** A parsed line before it is numbered. */
interface Question {
  readonly id: string | null;
  readonly question: string;
  readonly golden_answers: readonly string[];
  readonly data_source: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

export type ParsedQuestion = { readonly ok: true; readonly question: Question } | { readonly ok: false; readonly problem: string };

/** The columns of a file whose names are not among the known ones. A dot leads into an object: `extra_info.question`. */
export interface QuestionColumns {
  readonly question?: string;
  /** Of the golden answers. */
  readonly answer?: string;
  readonly id?: string;
}

/** The keys of `QuestionColumns`. */
export const QUESTION_COLUMNS = ['question', 'answer', 'id'] as const;

/** Columns that may hold a row's question, id or answers. The first one present counts; others are ordinary fields. Null counts as missing, because Parquet has every column in every row. */
const NAMES = {
  question: ['question', 'query', 'questions', 'queries', 'extra_info.question'],
  id: ['id', '_id'],
  choices: ['choices', 'options', 'metadata.choices'],
  answer: [
    'golden_answers',
    'answers',
    'answer',
    'expected',
    'expected_answer',
    'ground_truth',
    'ground_truths',
    'possible_answers',
    'reward_model.ground_truth.target',
    'reward_model.ground_truth',
  ],
} as const;

/** MuSiQue's further spellings of `answer`, which its evaluation accepts too. */
const ALIASES = 'answer_aliases';

const PREFIX = /^Answer the given question\. [^]*\bQuestion: ([^]*)$/;

/** Tells whether a column of this name can hold golden answers. */
export function isAnswerColumn(name: string): boolean {
  return (NAMES.answer as readonly string[]).includes(name);
}

/** Tells whether a column, or an object in it, can hold golden answers: what the row's player must not see. */
export function holdsAnswers(name: string): boolean {
  return name === ALIASES || NAMES.answer.some((known) => known === name || known.startsWith(`${name}.`));
}

/** Tells whether a column of this name can hold the choices of a question. */
export function isChoicesColumn(name: string): boolean {
  return (NAMES.choices as readonly string[]).includes(name);
}

/** The choices among which a row's answer is; null without any. */
export function choicesOf(row: Readonly<Record<string, unknown>>): unknown {
  return first(row, undefined, NAMES.choices)?.value ?? null;
}

export interface ParseQuestionOptions {
  /** @default the known names */
  readonly columns?: QuestionColumns;
  /** The columns of the file, of which a row may leave out those that are empty. @default none */
  readonly header?: readonly string[] | undefined;
  /** @default true */
  readonly needsAnswers?: boolean;
}

/** Reads one row. Never throws. */
export function parseQuestion(value: unknown, { columns = {}, header = [], needsAnswers = true }: ParseQuestionOptions = {}): ParsedQuestion {
  if (!isObject(value)) return { ok: false, problem: 'expected an object such as {"question": ..., "golden_answers": [...]}' };
  const missing = QUESTION_COLUMNS.find(
    (key) => columns[key] !== undefined && valueAt(value, columns[key]) === undefined && !header.includes(columns[key]),
  );
  if (missing !== undefined) return { ok: false, problem: `expected the column "${columns[missing]}" of columns.${missing}, ${foundIn(value)}` };
  const asked = questionIn(value, columns.question);
  if (typeof asked.value !== 'string') return { ok: false, problem: questionProblem(asked, value) };
  if (asked.value.trim() === '') return { ok: false, problem: 'expected a question, got a blank one' };
  const given = first(value, columns.id, NAMES.id);
  // Tables have blank ids where none is known.
  const id = typeof given?.value === 'string' && given.value.trim() === '' ? null : given;
  if (id !== null && typeof id.value !== 'string' && !Number.isInteger(id.value))
    return { ok: false, problem: `expected "${id.name}" to be text or an integer, got ${kindOf(id.value)}` };
  const { data_source: source } = value;
  if (source !== undefined && source !== null && typeof source !== 'string')
    return { ok: false, problem: `expected "data_source" to be text, got ${kindOf(source)}` };
  const answers = first(value, columns.answer, NAMES.answer);
  if (answers === null && needsAnswers)
    return { ok: false, problem: `expected "golden_answers", "answers" or "answer", found none; ${foundIn(value)}` };
  const golden = answers === null ? NO_ANSWERS : answersOf(value, answers, asked.value);
  if (!golden.ok) return golden;
  const taken = [asked.name, answers?.name, id?.name, 'id', 'data_source'];
  const question = {
    id: id === null ? null : String(id.value),
    question: asked.value,
    golden_answers: golden.answers,
    data_source: source ?? null,
    fields: Object.fromEntries(Object.entries(value).filter(([name]) => !taken.includes(name))),
  };
  return { ok: true, question };
}

const NO_ANSWERS: ReadAnswers = { ok: true, answers: [] };

function answersOf(row: Readonly<Record<string, unknown>>, { name, value }: Found, question: string): ReadAnswers {
  const aliases = name === 'answer' ? row[ALIASES] : undefined;
  return readGoldenAnswers(value, { name, choices: choicesOf(row), aliases, question });
}

interface Found {
  readonly name: string;
  readonly value: unknown;
}

/** The question, or that of the prompt that Search-R1 makes of it, which is all that some of its files have. */
function questionIn(row: Readonly<Record<string, unknown>>, column: string | undefined): Found {
  const given = first(row, column, NAMES.question);
  if (given !== null) return { name: given.name, value: userText(given.value) ?? given.value };
  const [, question] = PREFIX.exec(userText(row['prompt']) ?? '') ?? [];
  return { name: 'question', value: question?.trim() };
}

/** The text of the only message of the user in a prompt; null for anything else. */
function userText(prompt: unknown): string | null {
  const messages = Array.isArray(prompt) ? prompt.filter((message) => isObject(message) && message['role'] === 'user') : [];
  const [content, ...others] = messages.map((message: Record<string, unknown>) => message['content']);
  return typeof content === 'string' && others.length === 0 ? content : null;
}

function first(row: Readonly<Record<string, unknown>>, column: string | undefined, names: readonly string[]): Found | null {
  for (const name of column === undefined ? names : [column]) {
    const value = valueAt(row, name);
    if (value !== undefined && value !== null) return { name, value };
  }
  // Spreadsheets often have capitals in their headers.
  const spelled = column === undefined ? Object.keys(row).find((key) => names.includes(key.toLowerCase()) && row[key] !== null) : undefined;
  return spelled === undefined ? null : { name: spelled, value: row[spelled] };
}

/** The value of a column, or with dots in its name of a field in an object. */
function valueAt(row: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(row, name)) return row[name];
  return name.split('.').reduce<unknown>((value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined), row);
}

function questionProblem({ name, value }: Found, row: Readonly<Record<string, unknown>>): string {
  const problem = `expected "${name}" to be text, got ${kindOf(value)}`;
  return value === undefined ? `${problem}; ${foundIn(row)}` : problem;
}

function foundIn(row: Readonly<Record<string, unknown>>): string {
  return `the row has ${columnsIn(row)}. Name the columns, such as {"columns": {"question": "${userText(row['prompt']) === null ? 'q' : 'prompt'}", "answer": "a"}}`;
}
