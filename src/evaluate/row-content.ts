/** Digests that distinguish a row from a row of other data with the same id. They are used to pair the rows of two runs. */
import { hash } from 'node:crypto';
import { canonicalJson } from '../core/canonical-json.ts';
import type { Row } from '../core/dataset.ts';
import type { WireResult } from '../schemas/results.ts';
import type { Redaction } from './redaction.ts';

export interface RowFields {
  /** The text of its last user message. */
  readonly asked: string;
  readonly answer?: unknown;
  readonly info?: unknown;
}

/**
 * Digest of a row's answer and info, or of its question if it has neither. The prompt does not count if there are an answer or info, because two runs may compare
 * prompts. Null for values that are nested too deeply to read.
 */
export function rowContent({ asked, answer, info }: RowFields): string | null {
  const fields = answer === undefined && info === undefined ? { asked } : { answer, info };
  try {
    return hash('sha256', canonicalJson(fields), 'base64');
  } catch (error) {
    // The stack is full.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** If a run holds no content (null), the id alone decides. */
export function isSameContent<T extends string | number>(first: T | null, second: T | null): boolean {
  return first === null || second === null || first === second;
}

/**
 * Tells whether a row of the environment has the answer and the info of a record, from which this or another redaction may have removed secrets. Prompts are not
 * compared: the record has the one that the environment made from the row.
 */
export function isRecordedRow(result: WireResult, row: Row, redaction: Redaction): boolean {
  const [first, second] = [result, row].map(({ answer, info }) => {
    const fields = JSON.parse(JSON.stringify({ answer, info })) as object;
    return rowContent({ asked: '', ...redaction.values(fields) });
  });
  return isSameContent(first!, second!);
}
