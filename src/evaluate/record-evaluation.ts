/**
 * Plays many rollouts, writes each to disk as it finishes, and summarizes them. The caller chooses policy, retriever and environment; limits,
 * retries and deadlines of a rollout belong to `rollouts/`.
 */
import type { Row } from '../core/dataset.ts';
import { CancelledError, EnvironmentError, PolicyError } from '../core/errors.ts';
import type { Rollout, RolloutError } from '../rollouts/rollout.ts';
import { runRollouts } from '../rollouts/run-rollouts.ts';
import type { Summary } from '../schemas/summary.ts';
import { checkNumbers, makeDirectory, missingGroups, newPlan, selectRows } from './run-plan.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import { redactionOf } from './redaction.ts';
import { findAsked, findResult } from './run-files.ts';
import type { EvaluationEvent, EvaluationOptions, EvaluationProgress, EvaluationResult } from './evaluation-options.ts';
import { assertRun, resumedPlan } from './resume-run.ts';
import { policyKind } from './policy-kind.ts';
import { CostCeiling } from './run-cost.ts';
import { runNotices } from './run-notices.ts';
import { lockRun } from '../files/run-lock.ts';
import { waitedSeconds, wallSeconds } from './run-metadata.ts';
import { type RunPlan, RunWriter } from './run-writer.ts';
import { figures, sampleTranscript } from './summary.ts';

/**
 * Plays the environment's rows and records every rollout in `outputDir`. Throws ConfigError for invalid options, for a directory that another process writes to, or
 * for a resume with another configuration; ResultsError if a file cannot be written; PolicyError as soon as the server reports a failure that no rollout can avoid
 * (a wrong key, an unknown model): a resume continues from there.
 */
export async function recordEvaluation<R extends Row>(options: EvaluationOptions<R>): Promise<EvaluationResult> {
  checkNumbers(options);
  const rows = selectRows(options);
  const { outputDir } = options;
  if (options.resume) await assertRun(outputDir);
  else makeDirectory(outputDir);
  const lock = await lockRun(outputDir);
  try {
    const redaction = redactionOf(options.secrets);
    const plan = options.resume ? await resumedPlan(options, rows, redaction) : await newPlan(options, rows);
    const writer = await RunWriter.open(options, plan, redaction);
    await closing(writer, async () => {
      await writer.saveMetadata();
      const { kept, redone, repeated } = plan;
      options.onEvent?.({ type: 'started', directory: outputDir, kept: kept.length, redone, progress: writer.progress });
      for (const text of repeated) options.onEvent?.({ type: 'notice', text, progress: writer.progress });
      await playMissing(options, plan, writer);
    });
    return await result(options, writer);
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

/** Plays the rollouts that are not on disk yet. Cancellation by the caller ends it early and is not an error. */
async function playMissing<R extends Row>(options: EvaluationOptions<R>, plan: RunPlan<R>, writer: RunWriter<R>): Promise<void> {
  const missing = missingGroups(plan, options.rolloutsPerExample);
  const ceiling = costCeiling(options, writer);
  const groups = ceiling?.within(missing) ?? missing;
  const rollouts = missing.reduce((sum, { indices }) => sum + indices.length, 0);
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const columns = new StateColumnCheck(options);
  let end: RolloutError | null = null;
  try {
    const onActive = (active: number) => {
      writer.active = active;
      options.onEvent?.({ type: 'active', progress: writer.progress });
    };
    // More workers than rollouts would be idle and take memory.
    const maxConcurrent = Math.min(options.maxConcurrent, Math.max(1, rollouts));
    const onRollout = (rollout: Rollout<R>) => {
      const recorded = writer.record(rollout);
      const { error } = rollout;
      if (error?.endsRun !== true) options.onEvent?.(rolloutEvent(recorded, rollout, writer.progress));
      else end ??= error;
      columns.check(rollout, (text) => options.onEvent?.({ type: 'notice', text, progress: writer.progress }));
      // Rollouts in flight are cancelled; those that finish meanwhile are still recorded.
      if (end !== null) stop.abort(new CancelledError('No rollout can succeed'));
    };
    // Each rollout is on file as soon as it has its score.
    const { overridesSampling = false, maxRetries: maxReplays } = options;
    for await (const _ of runRollouts(groups, { ...options, overridesSampling, signal, maxConcurrent, maxReplays, onActive, onRollout }));
  } catch (error) {
    if (!(error instanceof CancelledError) || !signal.aborted) throw error;
  }
  writer.limitReached = ceiling?.isReached ?? false;
  // Set by a callback, which the compiler does not see.
  const ended = end as RolloutError | null;
  if (ended === null || options.signal.aborted) return;
  const { done, total } = writer.progress;
  const Failure = ended.source === 'policy' ? PolicyError : EnvironmentError;
  const cause = ended.message.replace(/\.$/, '');
  throw new Failure(
    `${cause}. The run stopped after ${done} of ${total} rollouts. Fix this, then continue the run: ${options.continuedWith ?? `-R ${options.outputDir}`}`,
  );
}

function costCeiling<R extends Row>({ cost }: EvaluationOptions<R>, writer: RunWriter<R>): CostCeiling | null {
  const limit = cost?.limit ?? null;
  if (limit === null) return null;
  return new CostCeiling({ limit, soFar: () => ({ usd: writer.cost?.usd ?? Infinity, rollouts: writer.progress.done }) });
}

/** State columns are checked once the first episode shows the keys of its state. */
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

/** Does the work, then flushes and saves. After a failure it still does both, then throws the work's error. */
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
  const { run, environment, rolloutsPerExample, outputDir } = options;
  const { rollouts, planned, sessions, roles } = writer.state;
  const sample = rollouts.find((r) => r.error === null) ?? rollouts[0];
  const seconds = wallSeconds(sessions);
  const waited = waitedSeconds(sessions);
  const summary: Summary = {
    ...(run.name === undefined ? {} : { name: run.name }),
    envId: run.envId,
    model: run.model,
    policyKind: policyKind(options),
    directory: outputDir,
    ...figures(rollouts, { planned, rolloutsPerExample, displays: environment.rubric.displays }),
    ...(Object.keys(roles).length === 0 ? {} : { roles }),
    ...(writer.cost === null ? {} : { cost: writer.cost }),
    wallSeconds: seconds,
    ...(waited > 0 && { waitedSeconds: waited }),
    rolloutsPerSecond: rollouts.length === 0 || seconds === 0 ? null : rollouts.length / seconds,
    sample:
      sample === undefined ? null : sampleTranscript(await findResult(outputDir, sample.rolloutId), await findAsked(outputDir, sample.rolloutId)),
    notices: [
      ...(environment.notices ?? []),
      ...(options.client.remarks ?? []),
      ...runNotices(rollouts, environment),
      ...(writer.traceNotice === null ? [] : [writer.traceNotice]),
    ],
  };
  return { summary, directory: outputDir, interrupted: rollouts.length < planned };
}

function rolloutEvent({ index, reward, stop, error }: RecordedRollout, rollout: Rollout, progress: EvaluationProgress): EvaluationEvent {
  const stack = rollout.error?.stack;
  return {
    type: 'rollout',
    exampleId: rollout.row.exampleId,
    rolloutIndex: index,
    reward,
    stopCondition: stop,
    // Taken from the recorded error, which holds no secrets.
    error: error === null ? null : `${error.type}: ${error.message}`,
    ...(stack === undefined ? {} : { stack }),
    progress,
  };
}
