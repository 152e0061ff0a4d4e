/** Rows of LIMO's shape as supervised rows: the thoughts of a solution, then its answer. Pure. */
import type { PromptRow } from '../schemas/demonstration-row.ts';
import type { LimoRow } from './limo-rows.ts';

export interface SeedRowOptions {
  /** `tags`: in the tags that the environments read in replies, `<think>` and `<answer>`. `text`: the solution and the answer, separated by a blank line. */
  readonly form: SeedForm;
  /** Weight of the answer in the loss; the solution has 1, the question 0. */
  readonly answerWeight: number;
  /** The row's place in its data set, for messages of the trainer. */
  readonly id: string;
}

/** Weight of the answer in the loss, where the solution has 1. */
export const ANSWER_WEIGHT = 0.1;

export const SEED_FORMS = ['tags', 'text'] as const;
export type SeedForm = (typeof SEED_FORMS)[number];

const TAGS = ['<think>', '</think>', '<answer>', '</answer>'] as const;

/**
 * The fault that keeps a row out of this form, worded to follow its place and a colon; null if there is none. A tag inside a string would end it early for the
 * reader of the reply.
 */
export function seedRowProblem({ solution, answer }: LimoRow, form: SeedForm): string | null {
  if (form === 'text') return null;
  for (const [name, text] of Object.entries({ solution, answer })) {
    const tag = TAGS.find((t) => text.includes(t));
    if (tag !== undefined) return `its ${name} contains ${tag}`;
  }
  return null;
}

/** The row for `vf-train --sft`. Its last segment also holds the token that ends the turn, with the weight of the answer. */
export function seedRow({ prompt, solution, answer }: LimoRow, { form, answerWeight, id }: SeedRowOptions): PromptRow {
  const [thoughts, closing] = form === 'tags' ? [`<think>\n${solution}\n</think>\n`, `<answer>${answer}</answer>`] : [`${solution}\n\n`, answer];
  const [{ role, content }] = prompt;
  return {
    example_id: id,
    prompt: [{ role, content }],
    segments: [
      { kind: 'model', text: thoughts, weight: 1 },
      { kind: 'model', text: closing, weight: answerWeight, ends_turn: true },
    ],
  };
}
