/** The reward of an agent's answer: exact match, the score of a judge, a function of the user's, or what a command said. */
import { metric, reward, type RewardContext, RewardError, Rubric } from 'vf-search';
import { judgeReward, Parser } from 'vf-search/environment-kit';
import { normalizeAnswer } from 'vf-search/metrics/normalize-answer';
import type { RewardSource } from './arguments.ts';
import type { AgentRow } from './rows.ts';
import type { ProgramState } from './run-agent.ts';

type Context = RewardContext<AgentRow>;
export type Score = (context: Context) => number | Promise<number>;

/** Without an answer where failures are scored, or a budget was spent before there was one. */
const stateOf = ({ state }: Context) => state as Partial<ProgramState>;

/** @param own the function `reward` of the user's module; null for another source */
export function agentRubric(kind: RewardSource['kind'], own: Score | null): Rubric<AgentRow> {
  const [score, name, label] = scoreOf(kind, own);
  const scored = (context: Context) => (stateOf(context).answer === undefined ? 0 : score(context));
  return new Rubric<AgentRow>({
    funcs: [
      // Next to the reward, another number of that name would say the same.
      reward(scored, { name, ...(label === undefined ? {} : { label }), isHeadline: name !== 'reward' }),
      metric((context) => Number(stateOf(context).answer !== undefined), { name: 'answered' }),
      metric((context) => stateOf(context).agent_seconds ?? null, { name: 'agent_seconds', label: 'seconds per program' }),
    ],
  });
}

function scoreOf(kind: RewardSource['kind'], own: Score | null): readonly [Score, name: string, label?: string] {
  if (kind === 'exact_match') return [exactMatch, 'exact_match', 'exact match'];
  if (kind === 'command') return [commandReward, 'reward'];
  if (kind === 'module') return [own!, 'reward'];
  const judge = judgeReward<AgentRow>({ role: 'judge' });
  return [(context) => judge({ ...context, modelText: stateOf(context).answer ?? '', parser: new Parser() }), 'judge'];
}

/** The command has run in the rollout. Throws RewardError if it has not: what it would read is gone. */
function commandReward(context: Context): number {
  const given = stateOf(context).command_reward ?? null;
  if (given !== null) return given;
  throw new RewardError(
    'The command that scores reads the folder that the agent left, which is gone. It scores rollouts while they are played: vf-eval',
  );
}

/** 1 if the answer equals a golden answer without case, punctuation, articles and extra spaces (SQuAD's rule), else 0. */
function exactMatch(context: Context): number {
  const answer = normalizeAnswer(stateOf(context).answer ?? '');
  return context.row.info.golden_answers.some((golden) => normalizeAnswer(golden) === answer) ? 1 : 0;
}
