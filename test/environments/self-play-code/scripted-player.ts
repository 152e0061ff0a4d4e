/**
 * A policy for mini prompts that needs no model: what it writes depends on the rollout's name and the prompt alone. It proposes programs that append a digit, some of them
 * wrong in known ways, and solves them more or less well.
 */
import { createHash } from 'node:crypto';
import type { ScriptedTurn } from '../../../src/clients/scripted.ts';
import { contentText } from '../../../src/core/message.ts';

export interface PlayerOptions {
  /** Of 100 proposals, so many are valid. @default 70 */
  readonly valid?: number;
  /** Of 100 solutions, so many are right. @default 50 */
  readonly right?: number;
  /** Of 100 critiques, so many have a grade. @default 80 */
  readonly graded?: number;
}

export function scriptedPlayer({ valid = 70, right = 50, graded = 80 }: PlayerOptions = {}): (turn: ScriptedTurn) => string {
  return ({ key, messages }) => {
    const dice = createHash('sha256').update(key!).digest();
    const [chance, digit, other, kind] = [(dice[0]! * 100) / 256, dice[1]! % 10, dice[2]! % 10, dice[3]! % 4];
    const prompt = contentText(messages.at(-1)!.content);
    if (prompt.startsWith('propose f'))
      return `<input>'${digit}'</input><input>'${other}'</input><input>'77'</input><input>''</input><message>append</message>`;
    if (prompt.startsWith('propose')) return chance < valid ? proposal(digit, other) : WRONG[kind]!;
    if (prompt.startsWith('critique')) return chance < graded ? `{"rationale": "one step", "grade": ${digit / 10}}` : 'It is fine.';
    const appended = /a=a\+'(\d)'/.exec(prompt)?.[1] ?? '';
    const shown = /<(?:in|out)put>'(\d*)'/.exec(prompt)?.[1] ?? '';
    const isRight = chance < right;
    const answer = prompt.startsWith('solve o') ? `'${shown}${isRight ? appended : ''}'` : `'${isRight ? shown.slice(0, -1) : shown}'`;
    return prompt.startsWith('solve f')
      ? `<think>append</think><answer>def f(a):a=a+'${isRight ? functionDigit(prompt) : 'x'}';return a</answer>`
      : `<think>a=a+'${appended}';</think><answer>${answer}</answer>`;
  };
}

const WRONG = [
  '<code>def f(a):a=a+;return a</code><input>1</input>',
  "<code>def f(a):import random;return a</code><input>'1'</input>",
  '<code>def f(a):return a</code>',
  '<code>def f(a):return a</code><input>b</input>',
];

function proposal(digit: number, other: number): string {
  return `<code>def f(a):a=a+'${digit}';return a</code><input>'${other}4'</input>`;
}

function functionDigit(prompt: string): string {
  return /<output>'(?:\d*)(\d)'/.exec(prompt)?.[1] ?? '';
}
