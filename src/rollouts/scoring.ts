/** Scores rollouts outside the slots of the episodes, with a limit, a deadline and retries of its own. */
import { isCancelled, onAbort, untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { causeText, RewardError, thrownText, VfError } from '../core/errors.ts';
import type { RolloutModels } from '../core/model.ts';
import type { RewardContext, Rubric, Score, ScoringRunner } from '../core/rubric.ts';
import { returnedText } from '../core/returned-text.ts';
import { isObject } from '../schemas/is-object.ts';
import { Limiter } from '../core/limiter.ts';
import { type Deadline, deadlineOf, type RunningDeadline, TIMEOUT_NAMES, type TimeoutNames } from './deadline.ts';
import { heldModels, type HeldModelsOptions } from './held-models.ts';
import { type Rollout, rolloutError, withScore } from './rollout.ts';
import { withBranchRewards } from './branch-rewards.ts';
import { scoredSegments } from './scored-segments.ts';

/** Further attempts at rewards that failed retryably. Calls of models by role have retries of their own. */
const RETRIES = 1;
const GRACE_MS = 5000;

export interface PlayedMember<R extends Row> {
  readonly rollout: Rollout<R>;
  readonly models: RolloutModels | null;
}

interface ClockedMember<R extends Row> extends PlayedMember<R> {
  readonly clock: ScoringClock;
}

/** A member whose `finish` hook has run. */
export interface FinishedMember<R extends Row> extends ClockedMember<R> {
  /** Calls of models by role before the hook, and after it unless it failed. */
  readonly askedBefore: number;
  readonly askedFinished: number | null;
  /** The reason why the hook failed; null if it did not. */
  readonly failure: Error | null;
}

export interface ScoringOptions {
  readonly maxScoring: number;
  readonly maxConcurrent: number;
  readonly timeoutMs: number | null;
  readonly scoringTimeoutMs?: number | null;
  readonly timeoutNames?: TimeoutNames;
  /** The time for which a cancelled run continues to score played rollouts, in milliseconds. @default 5000 */
  readonly scoringGraceMs?: number;
  /** The user's signal: scoring goes on for a moment when it aborts. */
  readonly signal: AbortSignal;
  /** The run's own signal: the scores are no longer read once it aborts. */
  readonly stop: AbortSignal;
}

export class Scoring<R extends Row> implements AsyncDisposable {
  readonly #environment: Scored<R>;
  readonly #options: ScoringOptions;
  readonly #limiter: Limiter;
  readonly #end = new AbortController();
  readonly #listening: readonly Disposable[];
  #grace: NodeJS.Timeout | undefined;
  #unscored = 0;
  #dropped = 0;
  #room = Promise.withResolvers<void>();

  constructor(environment: Scored<R>, options: ScoringOptions) {
    this.#environment = environment;
    this.#options = options;
    this.#limiter = new Limiter(options.maxScoring);
    const { signal, stop, scoringGraceMs = GRACE_MS } = options;
    const cancel = () => (this.#grace = setTimeout(() => this.#end.abort(signal.reason), scoringGraceMs));
    this.#listening = [onAbort(signal, cancel), onAbort(stop, () => this.#end.abort(stop.reason))];
  }

  /** Rollouts that were played but not scored because the run was cancelled. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Waits while many rollouts await their scores: playing more would only fill the memory. */
  async room(signal: AbortSignal): Promise<void> {
    const most = 4 * (this.#options.maxScoring + this.#options.maxConcurrent);
    while (this.#unscored >= most && !signal.aborted) await untilAborted(this.#room.promise, signal).catch(() => {});
  }

  /** Begins the environment's `finish` hook for a member, which then awaits its score. Never rejects. */
  async finish({ rollout, models }: PlayedMember<R>): Promise<FinishedMember<R>> {
    this.#unscored += 1;
    const { rubric } = this.#environment;
    const clock = new ScoringClock(this.#end.signal, this.#deadline);
    const askedBefore = (models?.asked ?? rollout.asked).length;
    const member = { rollout, models, clock, askedBefore, askedFinished: askedBefore, failure: null };
    if (rollout.error !== null || this.#environment.finish === undefined) return member;
    const context = rewardContext(rubric, member, 'calls');
    const hook = async () => {
      const added = await this.#environment.finish!(context);
      if (isObject(added)) return added;
      throw new RewardError(
        `The finish hook of the environment returned ${returnedText(added)}. Return an object with the fields that it adds to the state, {} for none.`,
        { isOfCode: true },
      );
    };
    try {
      const added = await this.#runner([clock])(hook, [0], () => 'the finish hook of the environment was at work');
      return { ...member, rollout: { ...rollout, state: { ...rollout.state, ...added } }, askedFinished: (models?.asked ?? rollout.asked).length };
    } catch (error) {
      const failure =
        error instanceof VfError ? error : new RewardError(`The finish hook of the environment failed: ${causeText(error)}`, { cause: error });
      return { ...member, askedFinished: null, failure };
    }
  }

  /**
   * Scores rollouts together. Failed ones get no reward and are invisible to group rewards. A rollout whose own rewards fail gets that error;
   * the others keep their scores. Rollouts that were cancelled before they had a score are left out. Never rejects.
   */
  async score(members: readonly FinishedMember<R>[]): Promise<readonly Rollout<R>[]> {
    try {
      return await this.#score(members);
    } finally {
      this.#unscored -= members.length;
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    }
  }

  async #score(members: readonly FinishedMember<R>[]): Promise<readonly Rollout<R>[]> {
    const { rubric } = this.#environment;
    const playable = members.filter(({ rollout, failure }) => rollout.error === null && failure === null);
    const clocks = playable.map(({ clock }) => clock);
    const contexts = playable.map((member) => rewardContext(rubric, member, 'waits'));
    const outcomes = playable.length === 0 ? [] : await settleScores(rubric, contexts, this.#runner(clocks));
    const together = outcomes.filter((outcome) => !(outcome instanceof Error)).length;
    const scored: Rollout<R>[] = [];
    for (const member of members) {
      const { rollout, models, clock } = member;
      const outcome = member.failure ?? outcomes[playable.indexOf(member)];
      if (outcome === undefined) scored.push(rollout);
      else if (!(outcome instanceof Error) || !isCancelled(this.#end.signal)) {
        const isFailed = outcome instanceof Error;
        const score = isFailed ? rolloutError(outcome, 'scoring') : outcome;
        const asked = models === null ? rollout.asked : [...models.asked];
        const beforeScoring = { stop: rollout.stop, asked: member.askedBefore, askedFinished: member.askedFinished };
        const own = { ...withScore(rollout, score, clock.elapsedMs), asked, beforeScoring, scoredWith: isFailed ? 0 : together };
        scored.push(withBranchRewards(own, this.#environment));
      } else this.#dropped += 1;
    }
    return scored;
  }

  get #deadline(): Deadline {
    const { scoringTimeoutMs, timeoutMs, timeoutNames = TIMEOUT_NAMES } = this.#options;
    return {
      what: 'The rewards were not computed',
      timeoutMs: scoringTimeoutMs === undefined ? timeoutMs : scoringTimeoutMs,
      option: timeoutNames.scoring,
    };
  }

  /** Runs a piece of scoring in a slot, with a deadline, and once more if it failed retryably. */
  #runner(clocks: readonly ScoringClock[]): ScoringRunner {
    return (work, members, awaited) => {
      // Finish rewards that have begun first: their rollouts are written only when they have all of their scores.
      const goesAhead = members.every((i) => clocks[i]!.hasBegun);
      const piece = async () => {
        const spentMs = members.map((i) => clocks[i]!.spentMs);
        for (let attempt = 1; ; attempt++) {
          // A further attempt gets the time that the piece had at its start, not the time that the failed attempt left.
          for (const [place, i] of members.entries()) clocks[i]!.spentMs = spentMs[place]!;
          try {
            const end = (reason: unknown) => members.forEach((i) => clocks[i]!.end(reason));
            return await runClocks(clocks, members, { work, awaited: awaited ?? (() => null), deadlines: new Set(), end });
          } catch (error) {
            const mayPass = error instanceof VfError && error.retryable && !error.isRetriedOut && !this.#end.signal.aborted;
            if (!mayPass || attempt > RETRIES) throw error;
          }
        }
      };
      return this.#limiter.run(piece, this.#end.signal, { goesAhead });
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#grace);
    for (const one of this.#listening) one[Symbol.dispose]();
  }
}

/** The parts of an environment that scoring needs. */
type Scored<R extends Row> = Pick<Environment<R>, 'rubric' | 'finish' | 'branchReward'>;

/** Checks for a method, not for our class, which an environment's rubric need not extend. */
export async function settleScores<R extends Row>(
  rubric: Rubric<R>,
  contexts: readonly RewardContext<R>[],
  run: ScoringRunner,
): Promise<readonly (Score | Error)[]> {
  const whole = contexts.map((_, i) => i);
  try {
    if (typeof rubric.settleGroup === 'function') return checked(await rubric.settleGroup(contexts, run), contexts.length);
    return checked(await run(() => rubric.scoreGroup(contexts), whole), contexts.length);
  } catch (error) {
    return whole.map(() => (error instanceof Error ? error : new RewardError(`The rewards failed: ${thrownText(error)}`, { cause: error })));
  }
}

/** Checks the result of a rubric: a reward that is not a finite number becomes an error. Throws RewardError unless there is one outcome per rollout. */
function checked(outcomes: readonly (Score | Error)[], rollouts: number): readonly (Score | Error)[] {
  if (!Array.isArray(outcomes)) throw new RewardError('The rubric gave no list of scores. It must give one score for each rollout.');
  if (outcomes.length !== rollouts)
    throw new RewardError(`The rubric gave ${outcomes.length} scores for ${rollouts} rollouts. It must give one for each.`);
  return outcomes.map((outcome: Score | Error) => {
    if (outcome instanceof Error) return outcome;
    // A rubric in JavaScript may leave metrics out.
    if (Number.isFinite(outcome?.reward)) return { ...outcome, metrics: outcome.metrics ?? {} };
    return new RewardError(`The rubric gave the reward ${String(outcome?.reward)}, which is not a finite number. Return a number for every rollout.`);
  });
}

interface Piece<T> {
  readonly work: () => Promise<T>;
  readonly awaited: () => string | null;
  /** Those of its members while it runs. */
  readonly deadlines: Set<RunningDeadline>;
  /** Ends the scoring of all its members: work that is abandoned for one of them may wait on the signal of another, and hold the slot of a role. */
  readonly end: (reason: unknown) => void;
}

function runClocks<T>(clocks: readonly ScoringClock[], members: readonly number[], piece: Piece<T>): Promise<T> {
  const [first, ...rest] = members;
  if (first === undefined) return piece.work();
  return clocks[first]!.during({ ...piece, work: () => runClocks(clocks, rest, piece) });
}

/**
 * The deadline of a member's scoring, shared by all its pieces: the rubrics of a group, group rewards. It runs only while a piece runs, so waiting
 * for a slot does not count. Neither do the calls of models by role in the `finish` hook, which have the deadlines of their roles.
 */
class ScoringClock {
  readonly #run: AbortSignal;
  readonly #deadline: Deadline;
  readonly #controller = new AbortController();
  readonly #running = new Set<Piece<unknown>['deadlines']>();
  /** Time of all pieces, failed attempts included. */
  elapsedMs = 0;
  /** The time that counts towards the deadline. */
  spentMs = 0;
  hasBegun = false;

  constructor(run: AbortSignal, deadline: Deadline) {
    this.#run = run;
    this.#deadline = deadline;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(reason: unknown): void {
    this.#controller.abort(reason);
  }

  async during<T>({ work, awaited, deadlines, end }: Piece<T>): Promise<T> {
    this.signal.throwIfAborted();
    using deadline = deadlineOf({ ...this.#deadline, spentMs: this.spentMs, awaited }, this.#run);
    using _ = onAbort(deadline.signal, () => end(deadline.signal.reason));
    this.hasBegun = true;
    deadlines.add(deadline);
    this.#running.add(deadlines);
    const startedAt = performance.now();
    const spentBeforeMs = this.spentMs;
    try {
      return await untilAborted(work(), deadline.signal);
    } finally {
      this.#running.delete(deadlines);
      this.elapsedMs += performance.now() - startedAt;
      this.spentMs += deadline.spentMs - spentBeforeMs;
    }
  }

  /** Stops the deadlines of the pieces that run now, for all members that they score together. */
  hold(): Disposable {
    const held = [...this.#running].flatMap((deadlines) => [...deadlines].map((deadline) => deadline.hold()));
    return { [Symbol.dispose]: () => held.forEach((each) => each[Symbol.dispose]()) };
  }
}

function rewardContext<R extends Row>(rubric: Rubric<R>, member: ClockedMember<R>, during: HeldModelsOptions['during']): RewardContext<R> {
  const { rollout, models: roles, clock } = member;
  const { row, prompt, stop, state, turnFormat } = rollout;
  const segments = scoredSegments(rollout.segments, { row, turnFormat, rubric });
  const models = heldModels(roles?.models ?? {}, { hold: () => clock.hold(), during });
  let scoredText = '';
  let modelText = '';
  for (const segment of segments) {
    scoredText += segment.text;
    if (segment.kind === 'model') modelText += segment.text;
  }
  return { row, prompt, segments, scoredText, modelText, stop, state, parser: rubric.parser, models, signal: clock.signal };
}
