/** Reads critiques and compares them: several critics grade a thought, and their rewards depend on the other critics and on the executor's verdict. */
import { RewardError } from 'vf-search';
import { afterThoughts } from 'vf-search/environment-kit';
import { firstGradedObject } from './graded-object.ts';
import type { Grading } from './grading-prompt.ts';

export type Critique =
  | {
      readonly status: 'ok';
      /** In [0, 1], after division by the scale. */
      readonly grade: number;
      /** Empty if the reply gives none. */
      readonly rationale: string;
      /** By dimension, each in [0, 1]; absent if the reply has none of those that were asked for. */
      readonly scores?: Readonly<Record<string, number>>;
    }
  | { readonly status: 'malformed' };

export interface CritiqueOptions {
  /** The best grade: 1 in the seed, 5 in the paper. Grades outside [0, scale] are malformed. @default 1 */
  readonly gradeScale?: number;
  /** Dimensions whose scores are read. A reply with one of them needs all of them, within the scale. @default none */
  readonly dimensions?: readonly string[];
  /** A reply without scores is malformed. @default false */
  readonly needsScores?: boolean;
}

/** How the replies to a prompt are read. */
export function critiqueOptions({ grading, dimensions }: { readonly grading: Grading; readonly dimensions: readonly string[] }): CritiqueOptions {
  return grading === 'own' ? {} : { dimensions, needsScores: grading === 'scores' };
}

/**
 * Reads a critic's reply: the first JSON object behind its thoughts that has a key `grade`, or `overall_grade`, within prose, a fence or another object. Grade and scores must
 * be finite numbers in [0, scale]; true and numbers in quotation marks are malformed, and so is a reply that a limit ended within its thoughts. The last of repeated keys counts.
 * Never throws.
 * @example parseCritique('Sure: {"rationale": "tried twice", "grade": 0.75}') // { status: 'ok', grade: 0.75, rationale: 'tried twice' }
 */
export function parseCritique(reply: string, { gradeScale = 1, dimensions = [], needsScores = false }: CritiqueOptions = {}): Critique {
  const spoken = afterThoughts(reply);
  // A thought often repeats the form that the prompt shows, with its example grade.
  const graded = /^\s*<think>/.test(spoken) ? null : firstGradedObject(spoken, dimensions);
  const grade = scaled(graded?.has('grade') === true ? graded.get('grade') : graded?.get('overall_grade'), gradeScale);
  if (graded === null || grade === null) return { status: 'malformed' };
  const given = dimensions.filter((name) => graded.has(name));
  const scores = given.flatMap((name) => {
    const score = scaled(graded.get(name), gradeScale);
    return score === null ? [] : [[name, score] as const];
  });
  const isWhole = scores.length === dimensions.length && scores.length > 0;
  if (!isWhole && (needsScores || given.length > 0)) return { status: 'malformed' };
  const rationale = graded.get('rationale');
  return {
    status: 'ok',
    grade,
    rationale: typeof rationale === 'string' ? rationale : '',
    ...(isWhole ? { scores: Object.fromEntries(scores) } : {}),
  };
}

/** In [0, 1]; null for anything but a number in [0, scale]. */
function scaled(value: unknown, scale: number): number | null {
  return typeof value === 'number' && value >= 0 && value <= scale ? value / scale : null;
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
