/** The short texts that `nano-coder` was taught. A reply has tags instead of code blocks. */
import { type FunctionRecord, shownCount, type TaskKind, type TaskRecord } from './records.ts';

const LETTERS: Readonly<Record<TaskKind, string>> = { code_i: 'i', code_o: 'o', code_f: 'f', code_e: 'e' };

/** `program` is the program to describe, for `code_f`. */
export function miniPropose(kind: TaskKind, program: string | null): string {
  return `propose ${LETTERS[kind]}${program === null ? '' : `\n<code>${program}</code>`}`;
}

export function miniSolve(record: TaskRecord): string {
  const head = `solve ${LETTERS[record.kind]}\n`;
  if (record.kind === 'code_f') return `${head}${shownPairs(record)}<message>${record.message}</message>`;
  const shown = record.kind === 'code_i' ? `<output>${record.output}</output>` : `<input>${record.input}</input>`;
  return `${head}<code>${record.snippet}</code>${shown}`;
}

export function miniCritique(thought: string): string {
  return `critique\n<think>${thought}</think>`;
}

function shownPairs({ inputs, outputs }: FunctionRecord): string {
  return inputs
    .slice(0, shownCount(inputs))
    .map((input, i) => `<input>${input}</input><output>${outputs[i]}</output>`)
    .join('');
}
