/** Divides supervised rows by their questions: a validation on other answers to a question that was trained on would measure memory. */
import { canonicalJson } from '../../core/canonical-json.ts';
import type { Random } from '../../core/random.ts';
import type { DemonstrationRow } from '../../schemas/demonstration-row.ts';
import type { Demonstrations, ReadDemonstration } from './read-demonstrations.ts';

/** Holds out the last questions of a shuffled list, with all of their rows: at least `count` rows, unless no question would be left to train on. */
export function holdOutQuestions(rows: readonly ReadDemonstration[], count: number, random: Random): Demonstrations {
  const byQuestion = Map.groupBy(rows, ({ row }) => questionOf(row));
  const held = new Set<ReadDemonstration>();
  const [, ...questions] = random.shuffle([...byQuestion.values()]);
  for (const question of questions.toReversed()) {
    if (held.size >= count) break;
    for (const row of question) held.add(row);
  }
  return { training: rows.filter((row) => !held.has(row)), validation: rows.filter((row) => held.has(row)) };
}

/** The number of rows whose prompt a row to train on has, too. */
export function countTrainedPrompts({ training, validation }: Demonstrations): number {
  const trained = new Set(training.map(({ row }) => promptOf(row)));
  return validation.filter(({ row }) => trained.has(promptOf(row))).length;
}

function questionOf(row: DemonstrationRow): string {
  if (row.group_id !== undefined) return `group ${row.group_id}`;
  return row.example_id === undefined ? promptOf(row) : `example ${row.example_id}`;
}

/** What comes before the first answer. */
function promptOf(row: DemonstrationRow): string {
  if ('prompt' in row) return canonicalJson(typeof row.prompt === 'string' ? [{ role: 'user', content: row.prompt }] : row.prompt);
  if ('messages' in row) {
    const begin = row.messages.findIndex(({ role }) => role === 'assistant');
    return canonicalJson(row.messages.slice(0, begin < 0 ? row.messages.length : begin).map(({ role, content }) => ({ role, content })));
  }
  const learned = row.weights ?? row.loss_mask ?? [];
  return row.token_ids
    .slice(
      0,
      learned.findIndex((weight) => weight > 0),
    )
    .join(' ');
}
