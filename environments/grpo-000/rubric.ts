/**
 * Format and answer reward of a rollout. They judge the model's own text, with every injected block replaced by an empty one, so a passage cannot change them.
 */
import { metric, reward, type RewardContext, RewardError, type Row, Rubric } from 'vf-search';
import type { TextSegment } from 'vf-search/environment-kit';
import { EMPTY_INFORMATION } from './protocol.ts';
import { answerReward, type AnswerRewardOptions, finalAnswer, formatReward, type FormatRewardOptions } from './reward.ts';
import type { GrpoState } from './state.ts';

export interface GrpoRow extends Row {
  readonly info: { readonly question: string; readonly golden_answers: readonly string[] } & Record<string, unknown>;
}

export interface GrpoRubricOptions {
  readonly format?: FormatRewardOptions;
  readonly answer?: AnswerRewardOptions;
  /**
   * `reject`: a rollout whose search failed gets no reward, so it is neither trained on nor part of its group's mean. `count`: it is scored and counted.
   * @default 'count'
   */
  readonly failedSearches?: 'reject' | 'count';
}

const REJECTED =
  'A search of this rollout failed and left an empty result (on_failure is "empty"), so it has no reward and is not trained on. ' +
  'Repair the search engine; with on_failure "throw" such a rollout ends at once.';
const FAILED = 'had a search that failed and went on with an empty result.';

/** The text that is judged. */
export function judgedText(segments: readonly TextSegment[]): string {
  return segments.map(({ kind, text }) => (kind === 'model' ? text : EMPTY_INFORMATION)).join('');
}

interface Judgement {
  readonly format: number;
  readonly answer: number;
  readonly isValid: boolean;
  readonly isExact: boolean;
  /** The answer is exact or similar. */
  readonly isSimilar: boolean;
}

/** Both rewards with weight 1, so that their sum is the specification's. Of several golden answers the best counts. */
export function grpoRubric({ format, answer, failedSearches = 'count' }: GrpoRubricOptions = {}): Rubric<GrpoRow> {
  // Several terms need the judgement of one rollout; it is computed once.
  const judgements = new WeakMap<RewardContext<GrpoRow>, Judgement>();
  const judged = (context: RewardContext<GrpoRow>) => {
    let judgement = judgements.get(context);
    if (!judgement) judgements.set(context, (judgement = judge(context, format, answer)));
    return judgement;
  };
  const stateOf = ({ state }: RewardContext<GrpoRow>) => state as GrpoState;
  return new Rubric<GrpoRow>({
    funcs: [
      reward(
        (context) => {
          if (failedSearches === 'reject' && stateOf(context).failed_searches > 0) throw new RewardError(REJECTED);
          return judged(context).format;
        },
        { name: 'format_reward' },
      ),
      reward((c) => judged(c).answer, { name: 'answer_reward' }),
      metric((c) => Number(judged(c).isExact), { name: 'exact_match', label: 'exact match', isHeadline: true }),
      metric((c) => Number(judged(c).isSimilar), { name: 'similar', label: 'similar or exact' }),
      metric((c) => Number(judged(c).isValid), { name: 'valid_format', label: 'valid format' }),
      metric((c) => Number(stateOf(c).searches > 0), { name: 'searched' }),
      metric((c) => stateOf(c).searches, { name: 'searches', label: 'searches per rollout', isCount: true }),
      metric((c) => stateOf(c).turns, { name: 'turns', isCount: true }),
      metric((c) => Number(stateOf(c).answered), { name: 'answered' }),
      metric((c) => stateOf(c).failed_searches, { name: 'failed_searches', isCount: true, remark: FAILED }),
    ],
  });
}

/** The default values of `answerReward`, as names. */
const [EXACT, SIMILAR, NOT_FOUND] = [2, 1, 0.5];

function judge({ segments, row }: RewardContext<GrpoRow>, format: FormatRewardOptions = {}, rewards: AnswerRewardOptions = {}): Judgement {
  const text = judgedText(segments);
  const final = finalAnswer(text);
  const kinds = row.info.golden_answers.map((truth) => answerReward(final, truth));
  const { exact = EXACT, similar = SIMILAR, notFound = NOT_FOUND } = rewards;
  const values = kinds.map((kind) => (kind === EXACT ? exact : kind === SIMILAR ? similar : kind === NOT_FOUND ? notFound : 0));
  return {
    format: formatReward(text, format),
    answer: values.length === 0 ? 0 : Math.max(...values),
    isValid: formatReward(text, { ...format, reward: 1, penalty: 0 }) === 1,
    isExact: kinds.includes(EXACT),
    isSimilar: kinds.includes(EXACT) || kinds.includes(SIMILAR),
  };
}
