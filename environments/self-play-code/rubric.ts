/** Scores one turn of any role. The source decides the reward of a proposal or a critique in training later, from the work of the other roles. */
import { metric, reward, type RewardContext, Rubric } from 'vf-search';
import { solutionText } from './check-solution.ts';
import { critiqueOptions, parseCritique } from './critique.ts';
import type { ProposalResult } from './proposals.ts';
import type { TaskRecord } from './records.ts';
import { parseReply } from './reply.ts';
import { solveReward } from './rewards.ts';
import type { RewardScheme, SelfPlaySettings } from './settings.ts';
import { statementCount } from './statement-count.ts';
import type { TaskInfo, TaskRow } from './task-rows.ts';

export interface SelfPlayJudges extends Pick<SelfPlaySettings, 'prompt' | 'grading' | 'dimensions'> {
  readonly rewards: RewardScheme;
  /** The outcome of a proposal. */
  readonly examine: (reply: string, asked: Extract<TaskInfo, { role: 'propose' }>, signal: AbortSignal) => Promise<ProposalResult>;
  /** Correctness of an answer, in [0, 1]. */
  readonly check: (record: TaskRecord, answer: string, signal: AbortSignal) => Promise<number>;
}

/** Programs of so many statements and more are counted together. */
const MOST_STATEMENTS = 6;

export function selfPlayRubric({ prompt, rewards, grading, dimensions, examine, check }: SelfPlayJudges): Rubric<TaskRow> {
  const solved = cached(async ({ row, modelText, signal }) => {
    const { info } = row;
    if (info.role !== 'solve') return null;
    const { isWellFormed: isFramed, answer } = parseReply(modelText, prompt);
    // As upstream: an answer that should be a program and holds none has a wrong format.
    const isWellFormed = isFramed && solutionText(info.kind, answer, prompt) !== null;
    return { isWellFormed, accuracy: isWellFormed ? await check(info.record, answer, signal) : 0 };
  });
  const isValid = async ({ row: { info }, modelText, signal }: RewardContext<TaskRow>) =>
    info.role === 'propose' ? Number((await examine(modelText, info, signal)).kind === 'valid') : null;
  const critiqueOf = ({ row: { info }, modelText }: RewardContext<TaskRow>) => {
    const parsed = info.role === 'critique' ? parseCritique(modelText, critiqueOptions({ grading, dimensions })) : null;
    return parsed?.status === 'ok' ? parsed : null;
  };
  const grade = (context: RewardContext<TaskRow>) => critiqueOf(context)?.grade ?? null;
  const isGraded = (context: RewardContext<TaskRow>) => (context.row.info.role === 'critique' ? Number(grade(context) !== null) : null);
  const accuracy = async (context: RewardContext<TaskRow>) => (await solved(context))?.accuracy ?? null;
  /** For a solution its correctness; for others 1 if they can be used at all. */
  const usable = async (context: RewardContext<TaskRow>) => (await accuracy(context)) ?? (await isValid(context)) ?? isGraded(context) ?? 0;
  const paid = async (context: RewardContext<TaskRow>) => {
    const solution = await solved(context);
    return solution === null ? usable(context) : solveReward(solution);
  };
  const headline = { label: 'accuracy', isHeadline: true } as const;
  return new Rubric<TaskRow>({
    // Prompts ask for them, and critics grade them.
    readsThoughts: true,
    funcs: [
      ...(rewards === 'accuracy'
        ? [reward(usable, { name: 'accuracy', ...headline })]
        : [reward(paid, { name: 'paid', label: 'reward' }), metric(accuracy, { name: 'accuracy', ...headline })]),
      metric(async (context) => toNumber((await solved(context))?.isWellFormed), { name: 'format', label: 'well-formed' }),
      ...Array.from({ length: MOST_STATEMENTS }, (_, i) => byLength(i + 1, accuracy)),
      metric(isValid, { name: 'valid', label: 'valid proposals' }),
      metric(isGraded, { name: 'graded', label: 'critiques with a grade' }),
      metric(grade, { name: 'grade' }),
      ...(grading === 'own' ? [] : dimensions).map((name) =>
        metric<TaskRow>((context) => critiqueOf(context)?.scores?.[name] ?? null, { name: `grade_${name.replaceAll(/\W+/g, '_')}`, label: name }),
      ),
    ],
  });
}

function byLength(statements: number, accuracy: (context: RewardContext<TaskRow>) => Promise<number | null>) {
  const isLast = statements === MOST_STATEMENTS;
  const noun = statements === 1 ? 'statement' : 'statements';
  const applies = ({ row: { info } }: RewardContext<TaskRow>) =>
    info.role === 'solve' && Math.min(MOST_STATEMENTS, Math.max(1, statementCount(info.record))) === statements;
  return metric<TaskRow>(async (context) => (applies(context) ? accuracy(context) : null), {
    name: `accuracy_${statements}_${isLast ? 'or_more_' : ''}${noun}`,
    label: `${statements} ${isLast ? 'or more ' : ''}${noun}`,
  });
}

function toNumber(value: boolean | undefined): number | null {
  return value === undefined ? null : Number(value);
}

/** Several terms need the same judgement of a rollout; it is made once. */
function cached<T>(judge: (context: RewardContext<TaskRow>) => Promise<T>): (context: RewardContext<TaskRow>) => Promise<T> {
  const judgements = new WeakMap<RewardContext<TaskRow>, Promise<T>>();
  return (context) => {
    let judgement = judgements.get(context);
    if (judgement === undefined) judgements.set(context, (judgement = judge(context)));
    return judgement;
  };
}
