/** A run as `vf-compare` reads it: values by row and rollout, and what tells its rows from those of other data. */
import { createHash } from 'node:crypto';
import { ConfigError } from '../core/errors.ts';
import { instructionLength } from '../core/instruction-length.ts';
import { ResultSchema, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import { runFiles } from './run-files.ts';
import { readMetadata, readRecords } from './run-records.ts';

export interface ComparedRow {
  readonly exampleId: string | number;
  /** Digest of its answer and info, of its question where it has neither. */
  readonly content: string;
  /** The beginning of its last user message, without the instructions that all rows of the run have before their question. */
  readonly question: string;
  readonly answer: string | null;
  /** By index. Of two records of one rollout the later one counts. */
  readonly rollouts: Map<number, RecordedRollout>;
}

export interface ComparedRun {
  readonly directory: string;
  readonly metadata: WireMetadata;
  /** By group id. */
  readonly rows: ReadonlyMap<string, ComparedRow>;
}

const QUESTION_CHARACTERS = 300;
/** Of a message that are held to find where its question begins. */
const HELD_CHARACTERS = 4000;

/** Throws ConfigError unless the directory holds a run with a recorded rollout. */
export async function readComparedRun(directory: string): Promise<ComparedRun> {
  const metadata = await readMetadata(directory);
  const rows = new Map<string, ComparedRow>();
  await readRecords(runFiles(directory).results, ResultSchema, (result) => {
    const row = rows.get(result.group_id) ?? comparedRow(result);
    rows.set(result.group_id, row);
    row.rollouts.set(result.rollout_index, recordedRollout(result));
  });
  if (rows.size === 0) throw new ConfigError(`${directory} has no recorded rollout yet. Continue the run with vf-eval -R, or leave it out.`);
  const start = instructionLength([...rows.values()].map(({ question }) => question));
  const short = ({ question }: ComparedRow) => question.slice(start).trim().slice(0, QUESTION_CHARACTERS);
  return { directory, metadata, rows: new Map([...rows].map(([id, row]) => [id, { ...row, question: short(row) }])) };
}

function comparedRow({ example_id: exampleId, prompt, answer, info }: WireResult): ComparedRow {
  const asked = (prompt.findLast(({ role }) => role === 'user') ?? prompt.at(-1))?.content ?? '';
  const told = answer === undefined && info === undefined ? { asked } : { answer, info };
  return {
    exampleId,
    content: createHash('sha256').update(canonicalJson(told)).digest('base64'),
    question: asked.slice(0, HELD_CHARACTERS),
    answer: answer ?? null,
    rollouts: new Map(),
  };
}
