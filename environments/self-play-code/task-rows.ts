/** The rows of each role: one turn with its prompt, and the record for judging the reply. */
import type { Row } from 'vf-search';
import type { Grading } from './grading-prompt.ts';
import { critiquePrompt, type PromptStyle, proposePrompt, solvePrompt } from './prompt.ts';
import type { IoRecord, Role, TaskKind, TaskRecord } from './records.ts';

/** The subject of a row, for the rubric and for readers of a rollout. */
export type TaskInfo =
  | { readonly role: 'propose'; readonly kind: TaskKind; readonly program: string | null }
  | { readonly role: 'solve'; readonly kind: TaskKind; readonly record: TaskRecord }
  | { readonly role: 'critique'; readonly kind: TaskKind; readonly thought: string; readonly isRight: boolean };

export interface TaskRow extends Row {
  /** The kind of task: credit compares rollouts of one role and kind. */
  readonly task: TaskKind;
  readonly role: Role;
  readonly info: TaskInfo & Record<string, unknown>;
}

/** The settings that prompts depend on. */
export interface PromptSettings {
  readonly prompt: PromptStyle;
  readonly banned: readonly string[];
  readonly inputCount: number;
  /** Those that a critic is asked about, and whose scores are read. */
  readonly dimensions: readonly string[];
  /** The reply that a critic is asked for. @default own */
  readonly grading: Grading;
}

export interface ProposalAsked {
  readonly kind: TaskKind;
  /** The program to describe, for `code_f`; else null. */
  readonly program: string | null;
  readonly references: readonly IoRecord[];
}

export function proposeRow(exampleId: string, { kind, program, references }: ProposalAsked, settings: PromptSettings): TaskRow {
  return {
    exampleId,
    prompt: proposePrompt(settings.prompt, { ...settings, kind, program, references }),
    task: kind,
    role: 'propose',
    info: { role: 'propose', kind, program },
  };
}

export function solveRow(exampleId: string, record: TaskRecord, { prompt }: Pick<PromptSettings, 'prompt'>): TaskRow {
  return {
    exampleId,
    prompt: solvePrompt(prompt, record),
    answer: referenceAnswer(record),
    task: record.kind,
    role: 'solve',
    info: { role: 'solve', kind: record.kind, record },
  };
}

/** For readers of a rollout: other inputs or functions can be just as right. */
function referenceAnswer(record: TaskRecord): string {
  if (record.kind === 'code_f') return record.snippet;
  return record.kind === 'code_i' ? record.input : record.output;
}

export interface JudgedThought {
  readonly kind: TaskKind;
  readonly thought: string;
  /** The executor's verdict about the solution. */
  readonly isRight: boolean;
}

export function critiqueRow(exampleId: string, { kind, thought, isRight }: JudgedThought, { prompt, dimensions, grading }: PromptSettings): TaskRow {
  return {
    exampleId,
    prompt: critiquePrompt(prompt, thought, dimensions, grading),
    task: kind,
    role: 'critique',
    info: { role: 'critique', kind, thought, isRight },
  };
}
