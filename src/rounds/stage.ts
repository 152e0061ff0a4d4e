/** What a stage of a round computes: a pure function of its inputs, so that the same inputs give the same bytes. */

/** Plain data: numbers, text, lists. */
type Rule = Readonly<Record<string, unknown>>;

interface StageOutput {
  /** Name of the file, in the stage's folder. */
  readonly name: string;
  /** Without line feeds. */
  readonly lines: readonly string[];
}

export interface StageResult {
  /** What decided, with its parameters. */
  readonly rule: Rule;
  readonly counts: Readonly<Record<string, number>>;
  /** The first one is what the next stage reads. */
  readonly outputs: readonly StageOutput[];
  /** A sentence for the user: what left rows out, and what would change that. @default the counts, where the stage wrote no row */
  readonly why?: string;
}

/** Versions of the stages: a change of what a stage gives for the same inputs raises its number. */
export const STAGE_VERSIONS = { bucket: 3, review: 2, focus: 3, verify: 3, extract: 3, vet: 3, rewrite: 3, finalize: 3, train: 1, sft: 1 } as const;
export type StageName = keyof typeof STAGE_VERSIONS;

/** Whether a person fills in this output: a list of rows, each with a decision. It may differ from what the stage wrote. */
export function isFilledIn(stage: string, output: string): boolean {
  return stage === 'verify' || (stage === 'bucket' && output === 'review.jsonl');
}
