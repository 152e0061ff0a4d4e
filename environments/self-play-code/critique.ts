/** Reads critiques and compares them: several critics grade a thought, and their rewards depend on the other critics and on the executor's verdict. */
import { RewardError } from 'vf-search';
import { firstGradedObject } from './graded-object.ts';

export type Critique =
  | {
      readonly status: 'ok';
      /** In [0, 1], after division by the scale. */
      readonly grade: number;
      /** Empty if the reply gives none. */
      readonly rationale: string;
    }
  | { readonly status: 'malformed' };

export interface CritiqueOptions {
  /** The best grade: 1 in the seed, 5 in the paper. Grades outside [0, scale] are malformed. @default 1 */
  readonly gradeScale?: number;
}

/**
 * Reads a critic's reply: the first JSON object in it that has a key `grade`, within prose, a fence or another object. The grade must be a finite number in
 * [0, scale]; true and numbers in quotation marks are malformed. The last of repeated keys counts. Never throws.
 * @example parseCritique('Sure: {"rationale": "tried twice", "grade": 0.75}') // { status: 'ok', grade: 0.75, rationale: 'tried twice' }
 */
export function parseCritique(reply: string, { gradeScale = 1 }: CritiqueOptions = {}): Critique {
  const graded = firstGradedObject(reply);
  if (graded === null) return { status: 'malformed' };
  const { grade, rationale } = graded;
  if (typeof grade !== 'number' || !(grade >= 0 && grade <= gradeScale)) return { status: 'malformed' };
  return { status: 'ok', grade: grade / gradeScale, rationale: typeof rationale === 'string' ? rationale : '' };
}

export interface CriticScores {
  /** Parallel to the grades, [k], each in [0, 1]: the median of the other valid grades; null for a malformed critique, and if no other is valid. */
  readonly creativity: readonly (number | null)[];
  /** Parallel to the grades, [k]: 1 if the critic agrees, else 0; null for a malformed critique. */
  readonly agreement: readonly (0 | 1 | null)[];
}

export interface CriticScoreOptions {
  /**
   * `verdict`: a grade of 0.5 or more means that the solution is correct, and must agree with the executor. `consensus`: the grade is at most 0.15 from the median of all valid
   * grades. @default 'verdict'
   */
  readonly agreement?: 'verdict' | 'consensus';
  /** `others`: the reward of a critic is the median of the other critics. `self`: it is its own grade, as in the seed; the critic then learns to answer 1. @default 'others' */
  readonly creativity?: 'others' | 'self';
}

const CONSENSUS = 0.15;

/**
 * Scores several critics of one solution.
 * @param grades [k], each in [0, 1]; null for a malformed critique.
 * @param isCorrect The executor's verdict on the solution.
 */
export function criticScores(grades: readonly (number | null)[], isCorrect: boolean, options: CriticScoreOptions = {}): CriticScores {
  const { agreement = 'verdict', creativity = 'others' } = options;
  for (const grade of grades)
    if (grade !== null && !(grade >= 0 && grade <= 1))
      throw new RewardError(`Expected a grade from 0 to 1, or null for a malformed critique, got ${grade}.`);
  const valid = grades.filter((grade) => grade !== null);
  const agrees = (grade: number) => (agreement === 'verdict' ? grade >= 0.5 === isCorrect : Math.abs(grade - median(valid)!) <= CONSENSUS);
  return {
    creativity: grades.map((grade, k) => {
      if (grade === null || creativity === 'self') return grade;
      return median(grades.filter((other, i) => other !== null && i !== k) as number[]);
    }),
    agreement: grades.map((grade) => (grade === null ? null : agrees(grade) ? 1 : 0)),
  };
}

function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return Number.isInteger(middle) ? (sorted[middle - 1]! + sorted[middle]!) / 2 : sorted[Math.floor(middle)]!;
}
