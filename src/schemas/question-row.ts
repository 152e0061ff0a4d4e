/** Questions in data sets on disk: FlashRAG's JSON Lines, and files written by hand. */
import { isObject } from './is-object.ts';
import { anyOf, filledListOf, object, text } from './json-schema.ts';
import { kindOf } from './kind-of.ts';
import { schemaCheck } from './schema-check.ts';

/** One question, ready for an environment. Further fields of the line (`metadata`, ...) are kept unchanged. */
export interface QuestionRow {
  /** Unique among the rows loaded together. */
  readonly id: string;
  readonly question: string;
  /** At least one. */
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

const rowSchema = object({ question: { type: 'string', pattern: '\\S' } }, { id: { type: ['string', 'integer'] }, data_source: text });

const answersSchema = anyOf(text, filledListOf(text));
const BLANK_ANSWER = 'a blank answer, which every text would contain; give the answer or leave it out';

/** Fields that may hold a line's answers. The first one present counts; others are ordinary fields. */
const ANSWER_FIELDS = ['golden_answers', 'answers', 'answer'] as const;

export function parseQuestion(value: unknown): ParsedQuestion {
  const isRow = schemaCheck(rowSchema);
  if (!isRow(value)) return { ok: false, problem: rowProblem(value, isRow.errors?.[0]?.instancePath.slice(1) ?? '') };
  const { id, question, data_source: source, ...fields }: typeof value & Record<string, unknown> = value;
  const name = ANSWER_FIELDS.find((field) => fields[field] !== undefined);
  if (name === undefined) return { ok: false, problem: 'expected "golden_answers", "answers" or "answer", found none' };
  const answers = fields[name];
  const isAnswers = schemaCheck(answersSchema);
  if (!isAnswers(answers)) return { ok: false, problem: `expected "${name}" to be text or a list of at least one text, got ${answersKind(answers)}` };
  const golden = typeof answers === 'string' ? [answers] : answers;
  if (golden.some((answer) => answer.trim() === '')) return { ok: false, problem: `expected answers in "${name}", got ${BLANK_ANSWER}` };
  delete fields[name];
  return {
    ok: true,
    question: {
      id: id === undefined ? null : String(id),
      question,
      golden_answers: golden,
      data_source: source ?? null,
      fields,
    },
  };
}

function rowProblem(value: unknown, field: string): string {
  if (!isObject(value)) return 'expected an object such as {"question": ..., "golden_answers": [...]}';
  const { question } = value;
  if (typeof question !== 'string') return `expected "question" to be text, got ${kindOf(question)}`;
  if (question.trim() === '') return 'expected a question, got a blank one';
  return `expected "${field}" to be text${field === 'id' ? ' or an integer' : ''}, got ${kindOf(value[field])}`;
}

function answersKind(answers: unknown): string {
  return Array.isArray(answers) && answers.length > 0 ? 'a list with something else in it' : kindOf(answers);
}
