/** The prompt of each role and kind of task, in one of two styles. */
import type { Message } from 'vf-search';
import { type Grading, gradingPrompt } from './grading-prompt.ts';
import { fullDescribe, fullPropose, fullSolve, type ProposeSlots } from './prompt-full.ts';
import { miniCritique, miniPropose, miniSolve } from './prompt-mini.ts';
import type { TaskKind, TaskRecord } from './records.ts';

/** `full`: for language models. `mini`: the few tokens that `nano-coder` was taught. */
export type PromptStyle = 'full' | 'mini';

export interface ProposalPrompt extends ProposeSlots {
  readonly kind: TaskKind;
  /** The program to describe, for `code_f`; else null. */
  readonly program: string | null;
  /** Inputs to choose, for `code_f`. */
  readonly inputCount: number;
}

export function proposePrompt(style: PromptStyle, { kind, program, inputCount, ...slots }: ProposalPrompt): readonly Message[] {
  if (style === 'mini') return user(miniPropose(kind, program));
  return user(kind === 'code_f' ? fullDescribe(program ?? '', inputCount) : fullPropose(kind, slots));
}

export function solvePrompt(style: PromptStyle, record: TaskRecord): readonly Message[] {
  return user(style === 'mini' ? miniSolve(record) : fullSolve(record));
}

/** @param grading what a prompt of the style `full` asks for */
export function critiquePrompt(style: PromptStyle, thought: string, dimensions: readonly string[], grading: Grading = 'own'): readonly Message[] {
  return user(style === 'mini' ? miniCritique(thought) : gradingPrompt(thought, dimensions, grading));
}

function user(content: string): readonly Message[] {
  return [{ role: 'user', content }];
}
