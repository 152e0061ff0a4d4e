/** A run as `vf-compare` reads it: values by row and rollout, and the data that distinguish its rows from those of other data sets. */
import { recordedInputs, withEnvironmentVersion, withOlderSetup } from '../core/environment-version.ts';
import { ConfigError } from '../core/errors.ts';
import { instructionLength } from '../core/instruction-length.ts';
import { ResultSchema, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { type RecordedRollout, recordedRollout } from './recorded-rollout.ts';
import { rowContent } from './row-content.ts';
import { factsOf } from '../rollouts/rollout-columns.ts';
import { isTrainingEvaluation, playedByText, readTrainingEvaluation, type TrainingEvaluation } from './training-evaluation.ts';
import { runFiles } from './run-files.ts';
import { readMetadata, readRecords } from './run-records.ts';

export interface ComparedRow {
  readonly exampleId: string | number;
  /** Digest of its answer and info, or of its question if it has neither; null if the run holds none of them. */
  readonly content: string | null;
  /** The beginning of its last user message, without the instructions that all rows of the run have before their question. */
  readonly question: string;
  readonly answer: string | null;
  /** Rollouts by index. */
  readonly rollouts: Map<number, RecordedRollout>;
}

export interface ComparedRun {
  readonly directory: string;
  readonly metadata: Pick<WireMetadata, 'name' | 'env_id' | 'model' | 'config' | 'rollouts_per_example'>;
  /** What a reader must know about it. @default nothing */
  readonly notes?: readonly string[];
  /** By group id. */
  readonly rows: ReadonlyMap<string, ComparedRow>;
}

const QUESTION_CHARACTERS = 300;
/** Characters of a message that are kept to find where its question begins. */
const HELD_CHARACTERS = 4000;

/** `directory`: the folder of a run, or the file of a training run's evaluation. Throws ConfigError unless it has a recorded rollout. */
export async function readComparedRun(directory: string): Promise<ComparedRun> {
  if (isTrainingEvaluation(directory)) return comparedEvaluation(await readTrainingEvaluation(directory));
  const { config, ...recorded } = await readMetadata(directory);
  const metadata = { ...recorded, config: withEnvironmentVersion(config, ...recordedInputs(recorded)) };
  const rows = new Map<string, ComparedRow>();
  const { notes } = await readRecords(runFiles(directory).results, ResultSchema, (result) => {
    const row = rows.get(result.group_id) ?? comparedRow(result);
    rows.set(result.group_id, row);
    row.rollouts.set(result.rollout_index, recordedRollout(result));
  });
  if (rows.size === 0) throw new ConfigError(`${directory} has no recorded rollout yet. Continue the run with vf-eval -R, or leave it out.`);
  const start = instructionLength([...rows.values()].map(({ question }) => question));
  const short = ({ question }: ComparedRow) => question.slice(start).trim().slice(0, QUESTION_CHARACTERS);
  return { directory, metadata, notes, rows: new Map([...rows].map(([id, row]) => [id, { ...row, question: short(row) }])) };
}

function comparedEvaluation(evaluation: TrainingEvaluation): ComparedRun {
  const { path, name, step, version, envId, envArgs, model, rollouts, inputs, olderSetup, notes: repeated } = evaluation;
  const rows = new Map<string, ComparedRow>();
  for (const trajectory of rollouts.values()) {
    const { group_id: id, metrics } = trajectory;
    const row = rows.get(id) ?? { exampleId: id, content: null, question: '', answer: null, rollouts: new Map<number, RecordedRollout>() };
    rows.set(id, row);
    const { error } = trajectory;
    const recorded = {
      ...factsOf(trajectory),
      metrics,
      error: error && { type: error.type, message: error.message },
      cutObservations: 0,
      endedAtMs: 0,
    };
    row.rollouts.set(trajectory.rollout_index, recorded);
  }
  const perExample = Math.max(...[...rows.values()].map((row) => row.rollouts.size).slice(0, 1000));
  const plain = { env_id: envId, env_args: envArgs, step };
  const config = olderSetup === null ? withEnvironmentVersion(plain, inputs) : withOlderSetup(plain, olderSetup);
  const notes = [playedByText(step, version), ...repeated].filter((note) => note !== '');
  return {
    directory: path,
    metadata: { ...(name === null ? {} : { name }), env_id: envId, model, config, rollouts_per_example: perExample },
    rows,
    notes,
  };
}

function comparedRow({ example_id: exampleId, prompt, answer, info }: WireResult): ComparedRow {
  const asked = (prompt.findLast(({ role }) => role === 'user') ?? prompt.at(-1))?.content ?? '';
  return {
    exampleId,
    content: rowContent({ asked, answer, info }),
    question: asked.slice(0, HELD_CHARACTERS),
    answer: answer ?? null,
    rollouts: new Map(),
  };
}
