/** Reads tasks: bundled ones, a user's own in the form of CRUXEval (`code`, `input`, `output`), or a data set of the hub in that form. */
import { ConfigError } from 'vf-search';
import { type DataRecord, loadRecords, type LoadRecordsOptions, type RowsSource } from 'vf-search/environment-kit';
import { parseLiteral } from 'vf-search/execution';
import { type FunctionRecord, TASK_KINDS, type TaskKind, type TaskRecord } from './records.ts';

export interface NamedTask {
  readonly id: string;
  readonly record: TaskRecord;
  /** The step of a program that a run invented; else null. */
  readonly step: number | null;
}

export interface LoadTasksOptions extends Pick<LoadRecordsOptions, 'dataset' | 'split' | 'env' | 'signal'> {
  /** The kinds of task for a row without `kind`. @default code_i and code_o, as in CRUXEval */
  readonly kinds?: readonly TaskKind[];
}

/**
 * Throws ConfigError for a data set that cannot be read, and names the first row that is not a task. A right value must have a literal form: no answer could be
 * compared with another one.
 */
export async function loadTasks({
  kinds = ['code_i', 'code_o'],
  ...options
}: LoadTasksOptions): Promise<{ tasks: readonly NamedTask[]; source: RowsSource }> {
  const { records, source } = await loadRecords(options);
  const asked = kinds.filter((kind) => kind === 'code_o' || kind === 'code_i');
  const tasks = records.flatMap((record, i) => tasksOf(record, i + 1, asked));
  const ids = new Set<string>();
  for (const { id } of tasks) {
    if (ids.has(id))
      throw new ConfigError(`${options.dataset} has two tasks with the id ${JSON.stringify(id)}. Give each an id of its own, or none.`);
    ids.add(id);
  }
  return { tasks, source };
}

function tasksOf({ fields, place }: DataRecord, number: number, kinds: readonly TaskKind[]): NamedTask[] {
  const id = fields['id'] === undefined ? `task_${number}` : text(fields, 'id', place);
  const step = Number.isInteger(fields['step']) ? (fields['step'] as number) : null;
  const kind = fields['kind'];
  if (kind !== undefined && !(TASK_KINDS as readonly unknown[]).includes(kind))
    throw new ConfigError(`${place}: kind must be ${TASK_KINDS.join(', ')}, got ${JSON.stringify(kind)}.`);
  if (kind === 'code_f') return [{ id, step, record: functionRecord(fields, place) }];
  const io = { snippet: text(fields, 'code', place), input: text(fields, 'input', place), imports: [] };
  if (kind === 'code_e') return [{ id, step, record: { ...io, kind, output: text(fields, 'output', place) } }];
  const output = literal(text(fields, 'output', place), 'output', place);
  const own = kind === undefined ? kinds : [kind as TaskKind];
  return own.map((each) => ({ id: own.length === 1 ? id : `${id}-${each}`, step, record: { ...io, output, kind: each as 'code_o' | 'code_i' } }));
}

function functionRecord(fields: DataRecord['fields'], place: string): FunctionRecord {
  const [inputs, outputs] = [texts(fields, 'inputs', place), texts(fields, 'outputs', place)];
  if (inputs.length < 2 || inputs.length !== outputs.length)
    throw new ConfigError(`${place}: a task of kind code_f has at least two inputs and as many outputs, got ${inputs.length} and ${outputs.length}.`);
  const message = fields['message'] === undefined ? '' : text(fields, 'message', place);
  return {
    kind: 'code_f',
    snippet: text(fields, 'code', place),
    inputs,
    outputs: outputs.map((each) => literal(each, 'outputs', place)),
    message,
    imports: [],
  };
}

function literal(value: string, key: string, place: string): string {
  const parsed = parseLiteral(value);
  if (parsed.ok) return value;
  throw new ConfigError(
    `${place}: ${key} must be a Python literal such as 'abc' or [1, 2], got ${JSON.stringify(value.slice(0, 80))}: ${parsed.problem}.`,
  );
}

function text(fields: DataRecord['fields'], key: string, place: string): string {
  const value = fields[key];
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw new ConfigError(`${place}: ${key} must be a string that is not blank, got ${JSON.stringify(value) ?? 'nothing'}.`);
}

function texts(fields: DataRecord['fields'], key: string, place: string): readonly string[] {
  const value = fields[key];
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw new ConfigError(`${place}: ${key} must be a list of strings, got ${JSON.stringify(value) ?? 'nothing'}.`);
}
