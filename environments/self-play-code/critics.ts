/**
 * The critics of a step: selects the solutions to grade, then computes the rewards of solutions and critiques. A critic is asked once more if its reply has no grade; after
 * that its critique is malformed: counted, and not trained on.
 */
import { type Trajectory, withReward } from 'vf-search/trainer';
import { criticScores, critiqueOptions, parseCritique } from './critique.ts';
import { mean } from './proposals.ts';
import type { TaskKind } from './records.ts';
import { parseReply } from './reply.ts';
import { type Alphas, integratedCritiqueReward, integratedSolveReward, lengthReward, type LengthRewardOptions, solveReward } from './rewards.ts';
import type { SelfPlaySettings } from './settings.ts';
import { critiqueRow, type PromptSettings, type TaskRow } from './task-rows.ts';

/** A solution that was scored by the executor. */
export interface Solution {
  readonly trajectory: Trajectory;
  readonly kind: TaskKind;
  /** Correctness, in [0, 1]. */
  readonly accuracy: number;
  readonly isWellFormed: boolean;
  /** The text between the think tags; null without tags. */
  readonly thought: string | null;
}

export function solutionOf(trajectory: Trajectory, kind: TaskKind, { prompt }: Pick<PromptSettings, 'prompt'>): Solution {
  const { thought } = parseReply(textOf(trajectory), prompt);
  return {
    trajectory,
    kind,
    accuracy: trajectory.metrics['accuracy'] ?? 0,
    isWellFormed: trajectory.metrics['format'] === 1,
    thought,
  };
}

/** The text that the policy wrote. */
export function textOf({ segments }: Pick<Trajectory, 'segments'>): string {
  return segments.flatMap(({ kind, text }) => (kind === 'model' ? [text] : [])).join('');
}

/** One row for each solution with a thought. */
export function criticRows(solutions: readonly Solution[], settings: PromptSettings): TaskRow[] {
  return solutions.flatMap(({ trajectory, kind, thought, accuracy, isWellFormed }) =>
    thought === null || isBlank(thought) || !isWellFormed
      ? []
      : [critiqueRow(criticId(trajectory), { kind, thought, isRight: accuracy === 1 }, settings)],
  );
}

/** Rows for the critiques without a grade, one for each. */
export function retryRows(rows: readonly TaskRow[], critiques: readonly Trajectory[], settings: PromptSettings): TaskRow[] {
  const byId = new Map(rows.map((row) => [String(row.exampleId), row]));
  return critiques.flatMap((critique) => {
    if (critique.error !== null || gradeOf(critique, settings) !== null) return [];
    return [{ ...byId.get(rowIdOf(critique))!, exampleId: retryId(critique) }];
  });
}

export interface CriticOptions {
  readonly settings: Pick<SelfPlaySettings, 'grading' | 'dimensions' | 'creativity'>;
  readonly alphas: Alphas;
  readonly lengthReward: LengthRewardOptions;
}

export interface Criticised {
  /** With their rewards. */
  readonly solutions: readonly Trajectory[];
  /** With their rewards; without those that have none. */
  readonly critiques: readonly Trajectory[];
  readonly values: Readonly<Record<string, number | null>>;
}

/**
 * Rewards solutions by correctness and the length of their thought, and critiques by agreement and creativity.
 * @param critiques those of the first phase and of the second
 */
export function payCriticised(
  solutions: readonly Solution[],
  [first, retried]: readonly [readonly Trajectory[], readonly Trajectory[]],
  { settings, alphas, lengthReward: length }: CriticOptions,
): Criticised {
  const again = new Map(retried.map((critique) => [rowIdOf(critique), critique]));
  const bySolution = Map.groupBy(first, rowIdOf);
  const paid: Trajectory[] = [];
  const grades: number[] = [];
  const agreements: number[] = [];
  let malformed = 0;
  for (const { trajectory, accuracy } of solutions) {
    const finals = (bySolution.get(criticId(trajectory)) ?? []).flatMap((critique) => {
      const final = again.get(retryId(critique)) ?? critique;
      return final.error === null ? [final] : [];
    });
    const given = finals.map((critique) => gradeOf(critique, settings));
    const { creativity, agreement } = criticScores(given, accuracy === 1, settings);
    for (const [k, critique] of finals.entries()) {
      const grade = given[k] ?? null;
      if (grade === null) malformed += 1;
      if (grade === null || agreement[k] === null) continue;
      grades.push(grade);
      agreements.push(agreement[k]!);
      const parts = { agreement: agreement[k]!, creativity: creativity[k] ?? null };
      // A single critic of a solution cannot be compared with others: only its agreement is known.
      const reward =
        parts.creativity === null
          ? parts.agreement
          : integratedCritiqueReward({ agreement: parts.agreement, creativity: parts.creativity }, alphas.critique);
      paid.push(
        withReward(critique, reward, { grade, agreement: parts.agreement, ...(parts.creativity === null ? {} : { creativity: parts.creativity }) }),
      );
    }
  }
  return {
    solutions: solutions.map((solution) => paySolution(solution, alphas, length)),
    critiques: paid,
    values: {
      'source/critiques': paid.length,
      'source/critiques_malformed': malformed,
      'source/grade': grades.length === 0 ? null : mean(grades),
      'source/agreement': agreements.length === 0 ? null : mean(agreements),
      'source/alpha_solve': alphas.solve,
      'source/alpha_critique': alphas.critique,
    },
  };
}

/** The format comes first; a well-formed solution is rewarded for correctness and for thinking. */
function paySolution({ trajectory, accuracy, isWellFormed, thought }: Solution, { solve }: Alphas, options: LengthRewardOptions): Trajectory {
  if (trajectory.error !== null) return trajectory;
  if (!isWellFormed) return withReward(trajectory, solveReward({ isWellFormed, accuracy }), {});
  const length = lengthReward(thoughtTokens(trajectory, thought), options);
  return withReward(trajectory, integratedSolveReward({ correctness: accuracy, length }, solve), { length_reward: length });
}

/**
 * Sampled tokens of the thought: its share of the reply's characters, because ids and text are not aligned. At least 1 if there is a thought, 0 if it is blank,
 * and all of them in a reply without tags.
 */
function thoughtTokens(trajectory: Trajectory, thought: string | null): number {
  const sampled = trajectory.targets.length;
  if (thought === null) return sampled;
  if (isBlank(thought)) return 0;
  return Math.max(1, Math.round((sampled * thought.length) / Math.max(1, textOf(trajectory).length)));
}

function isBlank(text: string): boolean {
  return text.trim() === '';
}

function gradeOf(critique: Trajectory, settings: Pick<PromptSettings, 'grading' | 'dimensions'>): number | null {
  const parsed = parseCritique(textOf(critique), critiqueOptions(settings));
  return parsed.status === 'ok' ? parsed.grade : null;
}

function criticId({ rolloutId }: Trajectory): string {
  return `critic-${rolloutId.replace('/', '-')}`;
}

/** The id of the row that a rollout played. */
export function rowIdOf({ rolloutId }: Pick<Trajectory, 'rolloutId'>): string {
  return rolloutId.slice(0, rolloutId.lastIndexOf('/'));
}

function retryId({ rolloutId }: Trajectory): string {
  return `retry-${rolloutId.replace('/', '-')}`;
}
