/** Rows of demonstrations between their stages: DDAI's three columns, and the facts about the rollout that the later stages and the golden trajectories need. */
import { ConfigError } from '../core/errors.ts';
import { parseRowV1, type RowV1 } from '../schemas/messages-v1.ts';
import { promptOf } from './messages-v1.ts';
import { changedLine, type PlacedFields, readObjects } from './row-files.ts';

/** `fields` has all columns. */
export interface DemonstrationRow extends RowV1, PlacedFields {
  /** Id of the prompt: `prompt_uid`, which `extract` writes, or the beginning of the uid. */
  readonly prompt: string;
  /** Null if the row does not say it. */
  readonly ndcg: number | null;
}

/** Throws ConfigError that names row, key, value and the allowed values; also for a uid that occurs twice. */
export async function readDemonstrationRows(paths: readonly string[]): Promise<DemonstrationRow[]> {
  const rows: DemonstrationRow[] = [];
  const first = new Map<string, string>();
  for (const path of paths) {
    for (const { fields, line, place } of await readObjects(path)) {
      const row = parseRowV1(fields);
      if (typeof row === 'string') throw new ConfigError(`${place}: ${row}. The rows must be demonstrations, as "vf-rounds extract" writes them.`);
      const known = first.get(row.uid);
      if (known !== undefined) throw new ConfigError(`${place} has the uid ${JSON.stringify(row.uid)}, as ${known} has; give each row once`);
      first.set(row.uid, place);
      const { prompt_uid: named } = fields;
      const prompt = typeof named === 'string' && named !== '' ? named : promptOf(row.uid);
      rows.push({ ...row, fields, line, place, prompt, ndcg: typeof fields['ndcg'] === 'number' ? fields['ndcg'] : null });
    }
  }
  return rows;
}

/** The line of a row with these messages, as text in the form of DDAI's files; the row's own line if they are its own. */
export function demonstrationLine(row: DemonstrationRow, messages: RowV1['messages']): string {
  if (messages.every(({ content }, i) => content === row.messages[i]!.content)) return row.line;
  return changedLine(row, (fields) => ({ ...fields, messages: JSON.stringify(messages) }));
}
