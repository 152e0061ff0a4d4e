/**
 * The tasks: programs with an input and its output, or with the inputs and outputs that describe them. Values are Python reprs, as text; a program is one
 * function `f`. Field names are those of Absolute Zero's records.
 */
export const TASK_KINDS = ['code_i', 'code_o', 'code_f', 'code_e'] as const;

/**
 * The result that a solver must find: `code_i` an input that gives the output, `code_o` the output, `code_f` the function behind inputs and outputs, `code_e` the name of the
 * error that the program raises.
 */
export type TaskKind = (typeof TASK_KINDS)[number];

/** A program with one input. */
export interface IoRecord {
  readonly kind: Exclude<TaskKind, 'code_f'>;
  readonly snippet: string;
  /** Arguments of the call, as written between the parentheses: `'314'` or `1, [2]`. */
  readonly input: string;
  /** repr of the result; of `code_e`, the name of the error, or `NoError`. */
  readonly output: string;
  readonly imports: readonly string[];
}

/** A function to be found: the first half of its inputs is shown, the rest is hidden. */
export interface FunctionRecord {
  readonly kind: 'code_f';
  readonly snippet: string;
  /** Arguments of each call. */
  readonly inputs: readonly string[];
  /** repr of each result. */
  readonly outputs: readonly string[];
  /** The proposer's description of the function; may be empty. */
  readonly message: string;
  readonly imports: readonly string[];
}

export type TaskRecord = IoRecord | FunctionRecord;

/** The program that everything starts from: it returns its argument. */
export const IDENTITY = { snippet: 'def f(a):\n    return a', input: "'Hello world'", output: "'Hello world'" } as const;

export type Role = 'propose' | 'solve' | 'critique';

/** The number of a function's inputs that a solver sees. */
export function shownCount(inputs: readonly unknown[]): number {
  return Math.ceil(inputs.length / 2);
}
