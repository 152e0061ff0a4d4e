/**
 * Many rollouts, written to disk as they finish, and their summary. Which policy, retriever and environment are used is decided by
 * the caller; limits, retries and deadlines of a rollout belong to `rollouts/`.
 */
import type { PolicyClient, Sampling } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { CancelledError, PolicyError } from '../core/errors.ts';
import type { RoleModels } from '../core/model.ts';
import type { Rollout, RolloutError } from '../rollouts/rollout.ts';
import { runRollouts } from '../rollouts/run-rollouts.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import type { Summary } from '../schemas/summary.ts';
import { checkOptions, makeDirectory, missingGroups, newPlan, selectRows } from './run-plan.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import { redactionOf } from './redaction.ts';
import { findResult } from './run-files.ts';
import { runNotices } from './run-notices.ts';
import { lockRun } from '../files/run-lock.ts';
import { wallSeconds } from './run-metadata.ts';
import { type RunPlan, RunWriter } from './run-writer.ts';
import { figures, sampleTranscript } from './summary.ts';

/** What a run is: recorded in `metadata.json`. All up to `policyKind` but the base URL must be equal for a run to be resumed. */
export interface RunIdentity {
  readonly envId: string;
  readonly envArgs: Readonly<Record<string, unknown>>;
  readonly model: string;
  /** Null for a built-in policy. */
  readonly baseUrl: string | null;
  readonly policyKind: 'tokens' | 'chat';
  /** By role, the name of the model that plays it. @default none */
  readonly roles?: Readonly<Record<string, string>>;
  /** The alias in `endpoints.toml`, when one was used. */
  readonly endpointName?: string;
  /** Version of this package. */
  readonly packageVersion: string;
  /** Commit of the checkout, when known. */
  readonly gitCommit?: string;
  /** Version of the environment's own package, when it has one. */
  readonly environmentVersion?: string;
}

export interface EvaluationOptions<R extends Row = Row> {
  readonly environment: Environment<R>;
  readonly client: PolicyClient;
  readonly run: RunIdentity;
  readonly sampling: Sampling;
  /** Rows of `environment.eval` to play, from the first; -1 plays all, and so does a number beyond them (a row is never played as two). */
  readonly numExamples: number;
  /** Rollouts of each row, at least 1. */
  readonly rolloutsPerExample: number;
  /** Rollouts in flight at once, at least 1. */
  readonly maxConcurrent: number;
  /** Seeds the environment, the built-in policy, the order of rows, and clients that send seeds. */
  readonly seed: number;
  readonly shuffle: boolean;
  readonly shuffleSeed: number;
  /** New tokens per rollout; null leaves it to the environment and the model's window. */
  readonly maxTokens: number | null;
  /** Wall clock per rollout; null waits as long as it takes. */
  readonly timeoutMs: number | null;
  /** Rollouts scored at once. @default maxConcurrent */
  readonly maxScoring?: number;
  /** Wall clock of the rewards of a rollout; null waits as long as it takes. @default timeoutMs */
  readonly scoringTimeoutMs?: number | null;
  /** The models of the environment's roles. @default none */
  readonly models?: RoleModels & { readonly stats?: ReadonlyMap<string, Pick<RoleStats, 'failures'>> };
  /** Further attempts at a rollout that failed for a reason that may pass. */
  readonly maxRetries: number;
  /** Scores every rollout by itself: group rewards see groups of one. */
  readonly independentScoring: boolean;
  /** Keys of the episode's state to record as columns; a name that is a column already changes nothing. */
  readonly stateColumns: readonly string[];
  /** The run's own directory; made when missing. */
  readonly outputDir: string;
  /** Keeps the finished rollouts found in `outputDir`, plays the missing ones, and plays again those that failed. */
  readonly resume: boolean;
  /** Values that must not appear in any file (API keys). */
  readonly secrets: readonly string[];
  /** Aborting stops the run: rollouts in flight are cancelled and absent, what finished is on disk. */
  readonly signal: AbortSignal;
  readonly onEvent?: (event: EvaluationEvent) => void;
}

/** Where a run stands; carried by every event. */
export interface EvaluationProgress {
  /** Rollouts recorded so far, those found by a resume included. */
  readonly done: number;
  readonly total: number;
  /** Of `done`: recorded as failed. */
  readonly errored: number;
  /** Mean over the finished rollouts; null while there is none. */
  readonly rewardMean: number | null;
  /** The same of the metric `em`; null where the environment has none. */
  readonly emMean: number | null;
  /** Rollouts in flight. */
  readonly active: number;
}

export type EvaluationEvent =
  /** Once, before the first rollout. `kept`: finished rollouts found on disk; `redone`: failed ones that will be played again. */
  | { readonly type: 'started'; readonly directory: string; readonly kept: number; readonly redone: number; readonly progress: EvaluationProgress }
  /** The number of rollouts in flight changed. */
  | { readonly type: 'active'; readonly progress: EvaluationProgress }
  /** Something the user should know while the run goes on. */
  | { readonly type: 'notice'; readonly text: string; readonly progress: EvaluationProgress }
  /** A rollout was recorded. `error` is "Name: message", null for a finished one; `stack` is for developers and may hold secrets. */
  | {
      readonly type: 'rollout';
      readonly exampleId: string | number;
      readonly rolloutIndex: number;
      readonly reward: number | null;
      readonly stopCondition: string | null;
      readonly error: string | null;
      readonly stack?: string;
      readonly progress: EvaluationProgress;
    };

export interface EvaluationResult {
  readonly summary: Summary;
  readonly directory: string;
  /** True when the signal stopped the run before every rollout was recorded. */
  readonly interrupted: boolean;
}

/**
 * Plays the environment's rows and records every rollout in `outputDir`. Throws ConfigError for options that cannot be used, for a
 * directory that another process writes to and for a resume under another configuration; ResultsError when a file cannot be written;
 * PolicyError as soon as the policy server says that no rollout can succeed (a wrong key, an unknown model): a resume goes on from there.
 */
export async function evaluate<R extends Row>(options: EvaluationOptions<R>): Promise<EvaluationResult> {
  checkOptions(options);
  const rows = selectRows(options);
  const { outputDir } = options;
  // Only a resume reads records, and only reading needs their schemas.
  const resume = options.resume ? await import('./resume-run.ts') : null;
  if (resume) await resume.assertRun(outputDir);
  else makeDirectory(outputDir);
  const lock = await lockRun(outputDir);
  try {
    const redaction = redactionOf(options.secrets);
    const plan = resume ? await resume.resumedPlan(options, rows, redaction) : await newPlan(options, rows);
    const writer = await RunWriter.open(options, plan, redaction);
    await closing(writer, async () => {
      await writer.saveMetadata();
      const { kept, redone } = plan;
      options.onEvent?.({ type: 'started', directory: outputDir, kept: kept.length, redone, progress: writer.progress });
      await playMissing(options, plan, writer);
    });
    return await result(options, writer);
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

/** Plays what is not on disk yet. Cancellation by the caller ends it early and is no error. */
async function playMissing<R extends Row>(options: EvaluationOptions<R>, plan: RunPlan<R>, writer: RunWriter<R>): Promise<void> {
  const groups = missingGroups(plan, options.rolloutsPerExample);
  const rollouts = groups.reduce((sum, { indices }) => sum + indices.length, 0);
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const columns = new StateColumnCheck(options);
  let end: RolloutError | null = null;
  try {
    const onActive = (active: number) => {
      writer.active = active;
      options.onEvent?.({ type: 'active', progress: writer.progress });
    };
    // A number beyond the rollouts would only make idle workers, each of which takes memory.
    const maxConcurrent = Math.min(options.maxConcurrent, Math.max(1, rollouts));
    const onRollout = (rollout: Rollout<R>) => {
      const recorded = writer.record(rollout);
      const { error } = rollout;
      if (error?.endsRun !== true) options.onEvent?.(rolloutEvent(recorded, error?.stack, writer.progress));
      else end ??= error;
      columns.check(rollout, (text) => options.onEvent?.({ type: 'notice', text, progress: writer.progress }));
      // Those in flight are cancelled; what has finished meanwhile is still recorded.
      if (end !== null) stop.abort(new CancelledError('No rollout can succeed'));
    };
    // Each rollout is on file as soon as it has its score.
    for await (const _ of runRollouts(groups, { ...options, signal, maxConcurrent, maxReplays: options.maxRetries, onActive, onRollout }));
  } catch (error) {
    if (!(error instanceof CancelledError) || !signal.aborted) throw error;
  }
  // Set by a callback, which the compiler does not see.
  const ended = end as RolloutError | null;
  if (ended === null || options.signal.aborted) return;
  const { done, total } = writer.progress;
  throw new PolicyError(`${ended.message}. The run stopped after ${done} of ${total} rollouts; mend this, then continue it: -R ${options.outputDir}`);
}

/** Names of state columns are checked when the first episode has shown what its state holds. */
class StateColumnCheck<R extends Row> {
  readonly #names: readonly string[];
  #isDone: boolean;

  constructor({ stateColumns }: EvaluationOptions<R>) {
    this.#names = stateColumns;
    this.#isDone = stateColumns.length === 0;
  }

  check({ error, state }: Rollout<R>, notice: (text: string) => void): void {
    if (this.#isDone || error !== null) return;
    this.#isDone = true;
    const unknown = this.#names.filter((name) => !(name in state));
    if (unknown.length === 0) return;
    const known = Object.keys(state).join(', ') || 'nothing';
    notice(`The episode's state has no ${unknown.join(', ')}: this state column stays null. The state holds ${known}`);
  }
}

/** Does the work, then flushes and saves, also after a failure, whose error then counts. */
async function closing<R extends Row>(writer: RunWriter<R>, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    await Promise.allSettled([writer.close(), writer.saveMetadata()]);
    throw error;
  }
  await writer.close();
  await writer.saveMetadata();
}

async function result<R extends Row>(options: EvaluationOptions<R>, writer: RunWriter<R>): Promise<EvaluationResult> {
  const { run, environment, client, rolloutsPerExample, outputDir } = options;
  const { rollouts, planned, sessions, roles } = writer.state;
  const sample = rollouts.find((r) => r.error === null) ?? rollouts[0];
  const seconds = wallSeconds(sessions);
  const summary: Summary = {
    envId: run.envId,
    model: run.model,
    policyKind: client.capabilities.kind,
    directory: outputDir,
    ...figures(rollouts, { planned, rolloutsPerExample }),
    ...(Object.keys(roles).length === 0 ? {} : { roles }),
    wallSeconds: seconds,
    rolloutsPerSecond: rollouts.length === 0 || seconds === 0 ? null : rollouts.length / seconds,
    sample: sample === undefined ? null : sampleTranscript(await findResult(outputDir, sample.rolloutId)),
    notices: [...(environment.notices ?? []), ...runNotices(rollouts, environment)],
  };
  return { summary, directory: outputDir, interrupted: rollouts.length < planned };
}

function rolloutEvent(rollout: RecordedRollout, stack: string | undefined, progress: EvaluationProgress): EvaluationEvent {
  return {
    type: 'rollout',
    exampleId: rollout.exampleId,
    rolloutIndex: rollout.index,
    reward: rollout.reward,
    stopCondition: rollout.stop,
    error: rollout.error === null ? null : `${rollout.error.type}: ${rollout.error.message}`,
    ...(stack === undefined ? {} : { stack }),
    progress,
  };
}
