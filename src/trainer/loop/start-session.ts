/** Opens the parts of a session at the point where an earlier process ended: loads the last checkpoint and serves its policy if something will be sampled from it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Disposers } from '../../core/disposers.ts';
import { PublishError, TrainingError } from '../../core/errors.ts';
import { trainingRows } from '../../core/training-rows.ts';
import { openCredit } from '../credit/registry.ts';
import type { Credit } from '../credit.ts';
import { ServedPolicy, VersionNames } from '../publisher/served-policy.ts';
import type { Checkpoint } from '../records/checkpoints.ts';
import { readMetrics } from '../records/metrics-journal.ts';
import type { RunRecords } from '../records/run-records.ts';
import { AheadSource } from '../sources/ahead-source.ts';
import { groupPlayer } from '../sources/play-group.ts';
import { sampleRollouts, type SamplingParts, type SamplingPlan } from '../sources/sample-rollouts.ts';
import { DemonstrationSource } from '../sources/demonstration-source.ts';
import { SampledSource } from '../sources/sampled-source.ts';
import { StreamedSource, type StreamContext } from '../sources/streamed-source.ts';
import { type Stage, StagedSource } from '../sources/staged-source.ts';
import { TrainingRows } from '../sources/training-rows.ts';
import type { PhasePlan, TrajectorySource } from '../trajectory-source.ts';
import { BestAdapter } from './best-adapter.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';
import { Evaluation } from './evaluation.ts';
import { Guards } from './guards.ts';
import { loadCheckpoint, newestRollouts } from './load-checkpoint.ts';
import { Progress } from './progress.ts';
import { servePolicyAtStart, type Serving } from './serve-policy.ts';
import { TokenBudget } from '../gradients/token-budget.ts';
import { joinObservers, type TrainingEvent } from '../training-observer.ts';
import { lowerRate, newRunAfter, supervisedSteps, totalSteps } from '../config/training-schedule.ts';
import type { DemonstrationSet, TrainingRun, TrainingSession } from '../training-session.ts';
import { Validation } from './validation.ts';

/** Closing it stops sampling ahead, and saves the steps since the last checkpoint. */
export interface SessionParts extends Serving, AsyncDisposable {
  readonly credit: Credit;
  readonly budget: TokenBudget;
  readonly guards: Guards;
  readonly validation: Validation;
  readonly best: BestAdapter;
  readonly checkpoints: CheckpointWriter;
}

export interface SessionStart {
  readonly signal: AbortSignal;
  /** The number of backends of this process that were lost because memory ran out. */
  readonly lostToMemory: number;
}

export async function startSession(
  run: TrainingRun,
  records: RunRecords,
  session: TrainingSession,
  { signal, lostToMemory }: SessionStart,
): Promise<SessionParts> {
  const { config, directory } = run;
  const checkpoint = await loadCheckpoint(records, session, signal);
  const start = { step: checkpoint?.step ?? 0, version: checkpoint?.version ?? 0, counters: checkpoint?.counters ?? {} };
  await records.resumeAt(start.step);
  await session.publisher.clear(signal);
  const stop = new AbortController();
  const inner = AbortSignal.any([signal, stop.signal]);
  const isAgain = await directory.holdsWork();
  await records.rollouts.restoreFrom(start.step + 1);
  const policy = servedPolicy(run, records, session, inner);
  // The servers are watched from here on, and the watch reports events: it must end before the records close.
  await using opened = new Disposers();
  opened.defer(() => policy.settled());
  opened.defer(() => stop.abort());
  const play = (plan: SamplingPlan, playSignal = inner) => samplePlan(plan, { run, records, session, policy, signal: playSignal });
  const demonstrations = (await run.openDemonstrations?.(session, signal)) ?? { training: [], validation: [] };
  const stream = {
    playGroup: groupPlayer(run, { ...samplingParts({ run, records, session, policy }), signal: inner }),
    version: () => progress.version,
  };
  const source = openSource(run, { ...(await sourceContext(run, records, play)), ...stream }, demonstrations);
  const credit = openCredit(config, run.ownCredit ?? null);
  const report = records.report.bind(records);
  const played = playsRows(run) ? trainingRows(run.environment) : null;
  const rows = played === null ? {} : { rows: new TrainingRows(played, (message, change) => report({ kind: 'alarm', message, changes: [change] })) };
  const parts = { source, credit: creditState(credit), ...rows };
  const isUpdatedOnce = config.algorithm.minibatches * config.algorithm.epochs === 1;
  const progress: Progress = new Progress({
    start,
    directory: `${directory.paths.checkpoints}/boundary.tmp`,
    parts,
    backend: isUpdatedOnce ? null : session.backend,
  });
  opened.defer(() => progress.close());
  if (checkpoint !== null) {
    for (const [name, part] of Object.entries(parts)) await part.loadState(`${checkpoint.directory}/parts/${name}`);
  }
  await progress.keep({ hasCheckpoint: true, counters: start.counters });
  // The base's own weights cannot change in flight, so that its adapter is served from the start.
  const isFresh = start.version === 0 && config.model.initialAdapter === null && !session.versions.isInFlight;
  const skipped = checkpoint?.counters['skipped_steps'] ?? 0;
  const spending = run.spentUsd === undefined ? {} : { spentUsd: run.spentUsd };
  const guards = new Guards(
    config.guards,
    {
      skipped,
      isServed: isFresh,
      losses: run.losses,
      ...spending,
      rows: await readMetrics(directory.paths.metrics),
      lowerRate: (step) => lowerRate(config, step),
      newRun: (reason) => newRunAfter(reason, config),
    },
    report,
  );
  const budget = new TokenBudget(Math.min(config.backend.maxTokens, session.backend.capabilities.maxTokens), {
    counters: budgetAtStart(checkpoint, config),
    lost: lostToMemory,
    onChange: (change, tokens) => report(budgetEvent(change, tokens)),
  });
  const best = new BestAdapter({ run, records, session, isValidated: demonstrations.validation.length > 0 });
  await best.review();
  const evaluation = await Evaluation.open(run, records, { play, best, from: start.step });
  const validation = new Validation({ run, records, session, budget, progress, best, signal: inner }, demonstrations.validation);
  const checkpoints = new CheckpointWriter({ run, records, session, progress, budget, guards }, start.step);
  const serving = { run, session, records, source, evaluation, policy, progress, signal: inner };
  records.served(session.versions.current(), session.versions.replicas);
  const computes = `${session.backend.capabilities.description}; policy ${session.client.name}`;
  report(startedOrResumed(start, { isAgain, computes }));
  records.noticeMissing(start.step);
  const opening: SessionParts = {
    ...serving,
    credit,
    budget,
    guards,
    validation,
    best,
    checkpoints,
    async [Symbol.asyncDispose]() {
      // Runs each of these, the last one first, even if one fails.
      await using closing = new Disposers();
      closing.defer(() => progress.close());
      // After Ctrl-C, a guard's stop or a server that did not come back, the steps since the last checkpoint would have to be repeated.
      closing.defer(async () => {
        // A lost backend can save nothing; the next one repeats the steps.
        if (checkpoints.isBehind && !(await saveInTime(checkpoints)) && signal.aborted)
          report({ kind: 'alarm', message: 'The checkpoint of the last steps could not be written in time. A resumed run (-R) repeats these steps' });
      });
      closing.defer(() => policy.settled());
      closing.defer(async () => source.close?.());
      stop.abort();
    },
  };
  // From here on, the parts end them.
  opened.move();
  try {
    if (!isFresh && (await servePolicyAtStart(serving, () => newestRollouts(records)))) guards.publish(null);
  } catch (error) {
    await opening[Symbol.asyncDispose]();
    if (!(error instanceof PublishError) || start.step === 0) throw error;
    throw new TrainingError(`Version ${start.version}, which the last checkpoint holds, cannot be served: ${error.message}. -R publishes it again`, {
      cause: error,
    });
  }
  return opening;
}

/** `isAgain`: an earlier attempt left rollouts, which are used again. */
function startedOrResumed(
  { step, version }: { readonly step: number; readonly version: number },
  { isAgain, computes }: { readonly isAgain: boolean; readonly computes: string },
): Pick<TrainingEvent, 'kind' | 'message'> {
  if (step > 0) return { kind: 'resumed', message: `Resumed from the checkpoint of step ${step}, version ${version}: ${computes}` };
  if (!isAgain) return { kind: 'started', message: computes };
  return { kind: 'resumed', message: `Resumed before the first checkpoint; rollouts that an earlier attempt recorded are used again: ${computes}` };
}

function creditState(credit: Credit) {
  return {
    saveState: async (directory: string) => credit.saveState?.(directory),
    loadState: async (directory: string) => credit.loadState?.(directory),
  };
}

/** A large checkpoint takes a while; a backend that no longer answers must not keep the process. */
const SAVE_MS = 60_000;

/** Resolves with whether it was written. */
async function saveInTime(checkpoints: CheckpointWriter): Promise<boolean> {
  const given = new AbortController();
  const deadline = sleep(SAVE_MS, false, { signal: given.signal }).catch(() => false);
  const saved = checkpoints.save().then(
    () => true,
    () => false,
  );
  const isWritten = await Promise.race([saved, deadline]);
  given.abort();
  return isWritten;
}

export function servedPolicy(
  { config, directory, servers }: TrainingRun,
  records: Pick<RunRecords, 'report'>,
  session: TrainingSession,
  signal: AbortSignal,
): ServedPolicy {
  return new ServedPolicy({
    ...session,
    servers,
    names: new VersionNames(session.name),
    adaptersDirectory: directory.paths.adapters,
    hasInitialAdapter: config.model.initialAdapter !== null,
    tolerance: config.publish.probeTolerance,
    maxStaleness: config.rollouts.maxStaleness,
    quorum: config.publish.quorum,
    report: records.report.bind(records),
    signal,
  });
}

function samplePlan(plan: SamplingPlan, { signal, ...sampler }: Sampler & { readonly signal: AbortSignal }) {
  return sampleRollouts(plan, { ...samplingParts(sampler), signal });
}

interface Sampler {
  readonly run: TrainingRun;
  readonly records: RunRecords;
  readonly session: TrainingSession;
  readonly policy: ServedPolicy;
}

function samplingParts({ run: { config, observer, models, gateway }, records, session, policy }: Sampler): Omit<SamplingParts, 'signal'> {
  return {
    client: session.client,
    ...(models === undefined ? {} : { models }),
    ...(gateway === undefined ? {} : { gateway }),
    config,
    observer: joinObservers([observer, { onFailedRollout: (failure) => records.onFailedRollout(failure) }]),
    recover: policy.recovery(),
    report: records.report.bind(records),
  };
}

async function sourceContext(
  run: TrainingRun,
  records: RunRecords,
  play: (plan: SamplingPlan, signal: AbortSignal) => ReturnType<typeof sampleRollouts>,
): Promise<Omit<StreamContext, 'playGroup' | 'version'>> {
  const { config, environment, observer } = run;
  const { rolloutsPerExample, temperature } = config.rollouts;
  const recorded = new Set((await records.rollouts.complete()).map(({ step, phase }) => JSON.stringify([step, phase])));
  return {
    config,
    environment,
    play: (plan: PhasePlan, signal) => play({ environment, rolloutsPerExample, temperature, store: records.rollouts, ...plan }, signal),
    store: records.rollouts,
    stepsBefore: supervisedSteps(config),
    isRecorded: (step, phase) => recorded.has(JSON.stringify([step, phase])),
    onRollouts: (rollouts) => observer.onRollouts?.(rollouts),
    report: records.report.bind(records),
  };
}

/** True if steps are sampled by the policy, from the environment's training rows or a source of its own. */
function playsRows({ config }: TrainingRun): boolean {
  return config.steps > 0 && config.rolloutsFile === null;
}

/** Supervised rows first, then rollouts, together with rows if they are mixed in. */
function openSource(run: TrainingRun, context: StreamContext, { training: rows, validation: heldOut }: DemonstrationSet): TrajectorySource {
  const { config } = run;
  const { sft, seed, steps } = config;
  const supervised = supervisedSteps(config);
  const sampled = steps === 0 ? null : rolloutSource(run, context);
  if (rows.length === 0) return sampled ?? new StagedSource([]);
  const demonstrations = new DemonstrationSource({ rows, heldOut, batchSize: sft.batchSize, seed });
  const stages: Stage[] = [
    { name: 'demonstrations', source: demonstrations, takesPart: (step) => step <= supervised || sft.mixWeight > 0 },
    ...(sampled === null ? [] : [{ name: 'rollouts', source: sampled, takesPart: (step: number) => step > supervised }]),
  ];
  return new StagedSource(stages);
}

/** A source from a user's module plays a step as a whole: it can only be one step ahead. */
function rolloutSource({ config, createSource, directory }: TrainingRun, context: StreamContext): TrajectorySource {
  const { maxStaleness } = config.rollouts;
  const lastStep = totalSteps(config);
  if (createSource === undefined && maxStaleness > 1) return new StreamedSource(context, lastStep);
  const source = createSource?.(context) ?? new SampledSource(context);
  return maxStaleness > 0
    ? new AheadSource(source, lastStep, createSource === undefined ? null : `${directory.paths.checkpoints}/ahead.tmp`)
    : source;
}

/** The checkpoint's budget, halvings included, unless backend.max_tokens changed since. */
function budgetAtStart(checkpoint: Checkpoint | null, { backend: { maxTokens } }: TrainingRun['config']): Readonly<Record<string, number>> {
  const counters = checkpoint?.counters ?? {};
  return (counters['max_tokens'] ?? maxTokens) === maxTokens ? counters : {};
}

function budgetEvent(change: 'halved' | 'raised', tokens: number): Pick<TrainingEvent, 'kind' | 'message'> {
  const why = change === 'halved' ? 'The backend ran out of memory' : 'Memory has sufficed for many steps';
  return { kind: `token_budget_${change}`, message: `${why}; micro-batches now have at most ${tokens} tokens` };
}
