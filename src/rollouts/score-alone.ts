/** Scores one episode that was played outside this package, with the environment's `finish` hook and rubric. */
import { untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { RewardError } from '../core/errors.ts';
import type { RewardContext, Score } from '../core/rubric.ts';
import { isObject } from '../schemas/is-object.ts';
import { scoredSegments } from './scored-segments.ts';
import { settleScores } from './scoring.ts';

type Played<R extends Row> = Pick<RewardContext<R>, 'row' | 'prompt' | 'segments' | 'stop' | 'state' | 'models' | 'signal'>;

/** Group rewards see a group of one. Rejects with RewardError if there is no reward; a missing reward is never 0. */
export async function scoreAlone<R extends Row>(
  environment: Pick<Environment<R>, 'rubric' | 'finish' | 'turnFormat'>,
  played: Played<R>,
): Promise<Score> {
  const { rubric, finish, turnFormat } = environment;
  const text = (segments: RewardContext<R>['segments']) => segments.map((segment) => segment.text).join('');
  const segments = scoredSegments(played.segments, { row: played.row, turnFormat, rubric });
  const modelText = text(segments.filter(({ kind }) => kind === 'model'));
  const context = { ...played, segments, scoredText: text(segments), modelText, parser: rubric.parser };
  const added = finish === undefined ? {} : await untilAborted(finish(context), played.signal);
  if (!isObject(added))
    throw new RewardError('The finish hook of the environment returned no object. Return the fields that it adds to the state, {} for none.');
  const contexts = [{ ...context, state: { ...played.state, ...added } }];
  const [score] = await untilAborted(
    settleScores(rubric, contexts, (work) => work()),
    played.signal,
  );
  if (score instanceof Error) throw score;
  return score!;
}
