/**
 * Finds the rollouts of a file whose prompt, response or answer contains a text, in any case. Reads the bytes of the file once; a line is parsed only if it may
 * contain the text.
 */
import { TimeoutError } from '../core/errors.ts';
import { type Fields, fieldsOf, listOf, textOf } from './loose-fields.ts';
import { visitLines } from './line-reader.ts';
import type { RolloutIndex } from './rollout-index.ts';
import { parsedRecord } from './rollout-reader.ts';
import type { RolloutTable } from './rollout-table.ts';

export interface TextSearch {
  readonly text: string;
  /** Rows before it were searched already. @default 0 */
  readonly fromRow?: number;
  readonly signal?: AbortSignal | undefined;
  /** @default 30,000 */
  readonly deadlineMs?: number;
}

/** The rows whose texts hold the text. Throws TimeoutError after the deadline. */
export async function searchText(
  index: RolloutIndex,
  table: RolloutTable,
  { text, fromRow = 0, signal, deadlineMs = 30_000 }: TextSearch,
): Promise<Set<number>> {
  const found = new Set<number>();
  const rows = new Map<number, number>();
  for (const row of table.rows) if (row >= fromRow) rows.set(table.place(row).start, row);
  if (rows.size === 0) return found;
  const needle = folded(text);
  const probe = plainPart(needle);
  const limit = AbortSignal.timeout(deadlineMs);
  const line = (bytes: Buffer, start: number, end: number, place: number) => {
    const row = rows.get(place);
    if (row === undefined) return;
    const raw = bytes.toString('utf8', start, end);
    if ((probe !== '' && !raw.includes(ESCAPE) && !folded(raw).includes(probe)) || !holds(raw, needle)) return;
    found.add(row);
  };
  await using file = await index.open();
  const { name, isPacked } = index.file;
  const from = isPacked ? 0 : rows.keys().next().value!;
  try {
    await visitLines(file, { line }, { name, from, isPacked, signal: signal === undefined ? limit : AbortSignal.any([signal, limit]) });
  } catch (cause) {
    if (!limit.aborted || signal?.aborted === true) throw cause;
    throw new TimeoutError(`The search took longer than ${deadlineMs / 1000} s. Search for a longer text, or search the file with grep.`, { cause });
  }
  return found;
}

/** Writers may spell any character as `\u` and its number. */
const ESCAPE = '\\u';

/** Lower case; the two lower cases of one Greek letter count as one. */
export function folded(text: string): string {
  return text.toLowerCase().replaceAll('ς', 'σ');
}

/** The longest part of a text that JSON writes unchanged. */
function plainPart(text: string): string {
  return text.split(/["\\/\p{Cc}\p{Cs}\u2028\u2029]/u).reduce((longest, part) => (part.length > longest.length ? part : longest), '');
}

function holds(line: string, needle: string): boolean {
  let record: Fields;
  try {
    record = parsedRecord(line);
  } catch {
    return false;
  }
  return searchedTexts(record).some((text) => folded(text).includes(needle));
}

/** Prompt, response and answer; of all branches. */
function searchedTexts(record: Fields): string[] {
  const messages = (value: unknown) => listOf(value).flatMap((message) => contentTexts(fieldsOf(message)));
  const segments = listOf(record['segments']).map((segment) => textOf(fieldsOf(segment)['text']) ?? '');
  const response = segments.length > 0 ? [segments.join(''), ...messages(record['completion'])] : messages(record['completion']);
  const { answer } = record;
  const reference = answer === undefined || answer === null ? [] : [typeof answer === 'string' ? answer : JSON.stringify(answer)];
  const branches = listOf(record['branches']).map(fieldsOf);
  const ofBranches = branches.flatMap(({ prompt, played }) => [...messages(prompt), ...messages(fieldsOf(played)['completion'])]);
  return [...(typeof record['prompt'] === 'string' ? [record['prompt']] : messages(record['prompt'])), ...response, ...ofBranches, ...reference];
}

function contentTexts({ content, tool_calls: calls }: Fields): string[] {
  const texts = typeof content === 'string' ? [content] : listOf(content).flatMap((part) => textOf(fieldsOf(part)['text']) ?? []);
  return [...texts, ...listOf(calls).flatMap((call) => textOf(fieldsOf(call)['arguments']) ?? [])];
}
