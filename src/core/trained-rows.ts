/** Tells which rows for evaluation are also rows to train on, whose rewards do not measure generalisation. */
import { canonicalJson } from './canonical-json.ts';
import type { Row } from './dataset.ts';

/**
 * The number of evaluation rows that are training rows, too: by their prompt, whatever their ids, which may begin with the split. Where several rows of one set have the
 * same prompt, as a game has, their answer and `info` must be equal as well, and their ids if they have neither.
 */
export function countTrainedRows(training: Iterable<Row>, evaluated: Iterable<Row>): number {
  const sets = [[...training], [...evaluated]].map((rows) => rows.map((row) => ({ row, prompt: canonicalJson(row.prompt) })));
  const repeated = new Set(sets.flatMap((rows) => repeatedOf(rows.map(({ prompt }) => prompt))));
  const keyOf = ({ row, prompt }: PromptedRow) => (row.prompt.length === 0 || repeated.has(prompt) ? prompt + contentOf(row) : prompt);
  const trained = new Set(sets[0]!.map(keyOf));
  return sets[1]!.filter((row) => trained.has(keyOf(row))).length;
}

interface PromptedRow {
  readonly row: Row;
  /** As canonical JSON. */
  readonly prompt: string;
}

function repeatedOf(prompts: readonly string[]): string[] {
  const seen = new Set<string>();
  return prompts.filter((prompt) => seen.size === seen.add(prompt).size);
}

function contentOf({ exampleId, answer, info }: Row): string {
  return canonicalJson(answer === undefined && info === undefined ? String(exampleId) : { answer, info });
}
