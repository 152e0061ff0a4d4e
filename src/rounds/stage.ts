/** The computation of a stage of a round: a pure function of its inputs, so that the same inputs give the same bytes. */

/** Plain data: numbers, text, lists. */
type Rule = Readonly<Record<string, unknown>>;

interface StageOutput {
  /** Name of the file, in the stage's folder. */
  readonly name: string;
  /** Without line feeds. */
  readonly lines: readonly string[];
}

export interface StageResult {
  /** The rule that decided, with its parameters. */
  readonly rule: Rule;
  readonly counts: Readonly<Record<string, number>>;
  /** The next stage reads the first one. */
  readonly outputs: readonly StageOutput[];
  /** A sentence for the user that says why rows were left out and how to change that. @default the counts, if the stage wrote no row */
  readonly why?: string;
}

/** Versions of the stages: the number rises when a stage gives other results for the same inputs. */
export const STAGE_VERSIONS = { bucket: 3, review: 2, focus: 3, verify: 3, extract: 3, vet: 3, rewrite: 3, finalize: 3, train: 1, sft: 1 } as const;
export type StageName = keyof typeof STAGE_VERSIONS;

/** True if a person fills in this output: a list of rows, each with a decision. It may then differ from the output of the stage. */
export function isFilledIn(stage: string, output: string): boolean {
  return stage === 'verify' || (stage === 'bucket' && output === 'review.jsonl');
}
