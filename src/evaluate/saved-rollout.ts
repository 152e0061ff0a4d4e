/** A rollout in a run's files, in the form that scoring needs. */
import type { Row } from '../core/dataset.ts';
import { RewardError } from '../core/errors.ts';
import type { AskedRecord } from '../core/model.ts';
import { savedBranches, savedSegments } from '../rollouts/branch-columns.ts';
import { messageOf } from '../rollouts/message-columns.ts';
import { factsOf } from '../rollouts/rollout-columns.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import type { WirePlayedLine } from '../schemas/played-line.ts';
import type { WireResult } from '../schemas/results.ts';

export interface SavedRollout<R extends Row> {
  readonly result: WireResult;
  readonly row: R;
  /** Null if the run saved no states, such as an evaluation of a training run. */
  readonly played: WirePlayedLine | null;
  readonly asked: readonly AskedRecord[];
}

/** The rollout without its score or error, as it was when its episode had ended. Tokens and generations stay on file: no reward reads them. */
export function savedRollout<R extends Row>({ result, row, played, asked }: SavedRollout<R>): Rollout<R> {
  const { timing } = result;
  const ms = (seconds: number) => seconds * 1000;
  const segments = savedSegments(result);
  return {
    ...factsOf(result),
    row,
    prompt: result.prompt.map(messageOf),
    tools: result.tools ?? [],
    turnFormat: result.turn_format ?? 'chat',
    segments,
    branches: savedBranches(result, segments),
    stop: played?.stop_condition ?? result.stop_condition,
    reward: null,
    metrics: {},
    error: null,
    cleanUpError: null,
    asked,
    generations: [],
    state: played?.state ?? unsavedState(),
    cutObservations: result.cut_observations,
    scoredWith: 0,
    attempts: result.attempts,
    timing: {
      startedAtMs: ms(timing.start_time),
      setupMs: ms(timing.setup.duration),
      generationMs: ms(timing.model.duration),
      environmentMs: ms(timing.env.duration),
      scoringMs: 0,
    },
  };
}

/** Fails the reward that reads it, which would otherwise treat a missing field as a value. */
function unsavedState(): Readonly<Record<string, unknown>> {
  const refuse = (what: string): never => {
    throw new RewardError(
      `The reward reads ${what} of the episode's state, which the run did not save. Play the row again, or use a rubric that reads texts alone.`,
    );
  };
  return new Proxy<Record<string, unknown>>(
    {},
    {
      get: (_, key) => (typeof key === 'string' ? refuse(`"${key}"`) : undefined),
      has: (_, key) => refuse(`"${String(key)}"`),
      ownKeys: () => refuse('all fields'),
    },
  );
}
