/** The rewards of both phases, and the metrics of an episode for the summary. */
import { metric, ModelError, reward, type RewardContext, Rubric } from 'vf-search';
import { judgeReward, type MetricDisplay } from 'vf-search/environment-kit';
import { documentOf } from 'vf-search/metrics/document-of';
import { checkFormat } from './format.ts';
import { judgedWords, judgeMessages, type JudgeSees, VERDICT_SCHEMA } from './judge.ts';
import { ndcg } from './ndcg.ts';
import { type Coefficients, COEFFICIENTS, phase1Reward, phase2Reward } from './rewards.ts';
import type { VisualRow } from './rows.ts';
import type { FinishedState, VisualState } from './state.ts';
import { FORCED_COMPLETION } from './texts.ts';
import { checkVragFormat } from './vrag-format.ts';

/** `ddai`: every turn thinks once and acts once, the last one completes. `vrag`: a search and an answer. `none`: every episode passes. */
export type FormatGate = 'none' | 'ddai' | 'vrag';

export interface RubricOptions {
  /** 1 rewards the search alone, without generator and judge; 2 the judged answer. @default 2 */
  readonly phase?: 1 | 2;
  /** @default COEFFICIENTS: 0.8 judge, 0.2 NDCG, 0 format */
  readonly coefficients?: Coefficients;
  /** @default 'ddai' in phase 1 and if the format has a coefficient, else 'none' */
  readonly formatGate?: FormatGate | null;
  /** An episode that the environment had to complete is scored as it is, or has reward 0. @default 'score' (DDAI) */
  readonly forcedStop?: 'score' | 'zero';
  /** @default 'page' */
  readonly ndcgLevel?: 'page' | 'document';
  /** @default 'answer' */
  readonly judgeSees?: JudgeSees;
  /** `drop`: a rollout whose judge failed has no reward. `zero`: its judge score is 0 (DDAI), counted as `judge_failed`. @default 'drop' */
  readonly onJudgeFailure?: 'drop' | 'zero';
}

type Context = RewardContext<VisualRow>;

interface Scores {
  readonly format: boolean;
  readonly ndcg: number;
  /** Null if the judge was not asked. */
  readonly judge: number | null;
  readonly judgeFailed: boolean;
  readonly reward: number;
}

export function visualRubric(options: RubricOptions): Rubric<VisualRow> {
  const { phase = 2 } = options;
  const judge = judgeReward<VisualRow>({
    template: judgeMessages(options.judgeSees ?? 'answer'),
    quotable: judgedWords,
    schema: VERDICT_SCHEMA,
    parse: readScore,
  });
  // Several terms need the scores of one rollout. A failure is not kept, so that another attempt asks again.
  const known = new WeakMap<Context, Promise<Scores>>();
  const scored = (context: Context) => {
    let scores = known.get(context);
    if (scores === undefined) {
      scores = scoresOf(context, options, judge);
      known.set(context, scores);
      scores.catch(() => known.delete(context));
    }
    return scores;
  };
  return new Rubric<VisualRow>({
    // The gate demands them in every turn.
    readsThoughts: true,
    funcs: [
      reward(async (c) => (await scored(c)).reward, { name: `phase${phase}` }),
      ...(phase === 1
        ? []
        : [
            metric<VisualRow>(async (c) => (await scored(c)).judge, { name: 'judge', label: 'judge score', isHeadline: true }),
            metric<VisualRow>(async (c) => Number((await scored(c)).judgeFailed), {
              name: 'judge_failed',
              remark: 'have a judge score of 0 because the judge failed.',
            }),
          ]),
      metric(async (c) => (await scored(c)).ndcg, { name: 'ndcg', label: 'NDCG of the pages', isHeadline: phase === 1 }),
      metric((c) => Number(formatPasses(c, options, 'ddai')), { name: 'format_pass', label: 'valid format' }),
      ...stateMetrics(),
      ...(phase === 1 ? [] : disagreements(scored)),
    ],
  });
}

/** Metrics of the episode, from its state. */
function stateMetrics() {
  const of = (read: (state: VisualState) => number, display: MetricDisplay & { readonly name: string }) =>
    metric<VisualRow>((context) => read(context.state as VisualState), display);
  const count = { isCount: true } as const;
  return [
    of(({ searches }) => searches, { name: 'searches', label: 'searches per rollout', ...count }),
    of(({ crops }) => crops, { name: 'crops', label: 'crops per rollout', ...count }),
    of(({ turns }) => turns, { name: 'turns', ...count }),
    of(({ pages }) => pages.length, { name: 'pages_read', label: 'pages read', ...count }),
    of((state) => state.invalid_actions, { name: 'invalid_actions', ...count }),
    of(({ forced }) => Number(forced), { name: 'forced_stop', label: 'forced stops' }),
    of(({ searches }) => Number(searches === 0), { name: 'zero_search', label: 'without a search' }),
  ];
}

/** Metrics for cases in which judge and NDCG contradict each other: right without a golden page (from the same document, or from nowhere), and wrong with all of them first. */
function disagreements(scored: (context: Context) => Promise<Scores>) {
  const isRight = ({ judge }: Scores) => judge !== null && judge >= 0.5;
  const of = (name: string, label: string, is: (scores: Scores, sharesDocument: boolean) => boolean) =>
    metric<VisualRow>(
      async (context) => {
        const scores = await scored(context);
        if (scores.judge === null) return null;
        const golden = new Set(context.row.info.golden_pages.map(documentOf));
        return Number(
          is(
            scores,
            (context.state as VisualState).pages.some((page) => golden.has(documentOf(page))),
          ),
        );
      },
      { name, label },
    );
  return [
    of('right_from_same_document', 'right from another page of the document', (s, shares) => isRight(s) && s.ndcg === 0 && shares),
    of('right_unsupported', 'right without its document', (s, shares) => isRight(s) && s.ndcg === 0 && !shares),
    of('wrong_with_golden_pages', 'wrong with all golden pages', (s) => s.judge === 0 && s.ndcg >= 1),
  ];
}

async function scoresOf(context: Context, options: RubricOptions, judge: (context: Context) => number | Promise<number>): Promise<Scores> {
  const { phase = 2, coefficients = COEFFICIENTS, forcedStop = 'score', ndcgLevel: level = 'page' } = options;
  const { pages, forced, generated_answer: answer } = context.state as FinishedState;
  const format = isPassed(context, options);
  const value = ndcg(pages, context.row.info.golden_pages, { level });
  const isZero = forced && forcedStop === 'zero';
  if (phase === 1) return { format, ndcg: value, judge: null, judgeFailed: false, reward: isZero ? 0 : phase1Reward({ format, ndcg: value }) };
  if (!format || answer === null) return { format, ndcg: value, judge: null, judgeFailed: false, reward: 0 };
  const judged = await judgeScore(context, answer, options, judge);
  const total = phase2Reward({ format, ndcg: value, judge: judged.score }, coefficients);
  return { format, ndcg: value, judge: judged.score, judgeFailed: judged.failed, reward: isZero ? 0 : total };
}

async function judgeScore(
  context: Context,
  answer: string,
  { onJudgeFailure = 'drop' }: RubricOptions,
  judge: (context: Context) => number | Promise<number>,
): Promise<{ readonly score: number; readonly failed: boolean }> {
  // The judge grades the generator's answer, not the policy's text.
  const graded: Context = { ...context, modelText: answer, prompt: [{ role: 'user', content: context.row.info.question }] };
  try {
    return { score: await judge(graded), failed: false };
  } catch (error) {
    if (onJudgeFailure === 'zero' && error instanceof ModelError && error.reason !== 'not_set_up') return { score: 0, failed: true };
    throw error;
  }
}

/** Tells whether the episode passes the gate that is in effect. */
export function isPassed(context: Context, options: RubricOptions): boolean {
  const { phase = 2, coefficients = COEFFICIENTS } = options;
  const gate = options.formatGate ?? (phase === 1 || coefficients.format > 0 ? 'ddai' : 'none');
  return formatPasses(context, options, gate);
}

function formatPasses({ segments, state }: Context, { forcedStop = 'score' }: RubricOptions, gate: FormatGate): boolean {
  if (gate === 'none') return true;
  const turns = segments.flatMap(({ kind, text }) => (kind === 'model' ? [text] : []));
  // The search is judged before the generator has answered, so VRAG's gate only requires a search.
  if (gate === 'vrag') return checkVragFormat(`${turns.join('\n')}<answer></answer>`);
  // Upstream scores the turn that it writes itself as if the policy had written it.
  return checkFormat((state as VisualState).forced && forcedStop === 'score' ? [...turns, FORCED_COMPLETION] : turns).pass;
}

/** A score outside 0 to 1 is clamped, as in upstream. */
function readScore({ score, reason }: Readonly<Record<string, unknown>>) {
  return { score: Math.min(1, Math.max(0, Number(score))), reason: typeof reason === 'string' ? reason : '' };
}
