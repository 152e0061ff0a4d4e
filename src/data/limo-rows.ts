/** Rows in the shape of LIMO (arXiv 2502.03387), `{question, solution, answer}`: problems with a long worked solution each. Pure. */
import type { Message } from '../core/message.ts';

export interface LimoRow {
  /** The question, as the only message of a user. */
  readonly prompt: readonly [Message & { readonly role: 'user'; readonly content: string }];
  readonly solution: string;
  readonly answer: string;
}

export type ParsedLimoRow =
  | { readonly ok: true; readonly row: LimoRow }
  /** `problem`: the fault in the first bad field, worded to follow the row's place and a colon. */
  | { readonly ok: false; readonly problem: string };

const FIELDS = ['question', 'solution', 'answer'] as const;

/** A row whose question, solution and answer are text that is not blank. Other fields are ignored, and no text is changed. Never throws. */
export function parseLimoRow(value: unknown): ParsedLimoRow {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { ok: false, problem: 'it is not an object' };
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name of FIELDS) {
    const text = fields[name];
    if (text === undefined) return { ok: false, problem: `it has no ${name}` };
    if (typeof text !== 'string') return { ok: false, problem: `its ${name} is not text` };
    if (text.trim() === '') return { ok: false, problem: `its ${name} is blank` };
  }
  const { question, solution, answer } = fields as Readonly<Record<(typeof FIELDS)[number], string>>;
  return { ok: true, row: { prompt: [{ role: 'user', content: question }], solution, answer } };
}

/** The usable rows, in order, and the number of the others; `empty` if none is usable. */
export type LimoRows = { readonly rows: readonly LimoRow[]; readonly skipped: number } | { readonly error: 'empty' };

/** Keeps the rows that `parseLimoRow` accepts and counts the others. */
export function limoRows(values: readonly unknown[]): LimoRows {
  const rows = values.map(parseLimoRow).flatMap((parsed) => (parsed.ok ? [parsed.row] : []));
  return rows.length === 0 ? { error: 'empty' } : { rows, skipped: values.length - rows.length };
}
