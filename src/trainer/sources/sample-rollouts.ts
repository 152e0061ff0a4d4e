/**
 * Samples a batch of rollouts. Each is recorded before anything else happens, so it survives a kill and only missing or failed rollouts are sampled again. If too
 * many fail because of the servers, this waits for the servers. If too many fail because of the environment, it samples the whole batch again. If a reward threw or
 * the policy's client has a fault, the run stops. The trainer never gets a batch with too many failures.
 */
import type { AgentGateway } from '../../agents/agent-gateway.ts';
import type { PolicyClient } from '../../clients/policy-client.ts';
import { cancelled, untilAborted } from '../../core/abort.ts';
import type { Row } from '../../core/dataset.ts';
import type { Limiter } from '../../core/limiter.ts';
import type { Environment } from '../../core/environment.ts';
import { CancelledError, PolicyError, TrainingError } from '../../core/errors.ts';
import type { RoleModels } from '../../core/model.ts';
import { Random } from '../../core/random.ts';
import { timerMs } from '../../core/timers.ts';
import { cleanUpText } from '../../rollouts/clean-up-text.ts';
import { metricErrorTexts } from '../../rollouts/metric-error-texts.ts';
import type { Rollout, RolloutError } from '../../rollouts/rollout.ts';
import { traceRecords } from '../../rollouts/trace-records.ts';
import { type RolloutGroup, runRollouts } from '../../rollouts/run-rollouts.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import {
  type Failure,
  type KnownOfFailure,
  failuresIn,
  failureText,
  isOfText,
  isPolicys,
  isCodes,
  isWhole,
  placeOf,
  repeatKind,
  checkPlayed,
  codeText,
  lastingFault,
  sentence,
  wholeOf,
} from './rollout-failures.ts';
import { openRecord, plannedIds } from './planned-rollouts.ts';
import type { RolloutStore, StepRollouts } from '../trajectory-source.ts';
import type { TrainingEvent, TrainingObserver } from '../training-observer.ts';
import { isUnplayed, type Trajectory, trajectoryOf, unpaid, withRole } from '../trajectory.ts';

const MOST_ATTEMPTS = 5;

const CORRECT_FAILURES = 'Correct the cause, or let more fail (--set rollouts.max_error_rate=…), then continue this run with -R';

export interface SamplingPlan {
  readonly step: number;
  /** The phase of the step, if the step has several; it names the file. @default the only one */
  readonly phase?: string;
  /** The role that speaks. @default 'policy' */
  readonly role?: string;
  /** Trajectories are recorded without a reward. @default false */
  readonly isPaidLater?: boolean;
  readonly environment: Environment;
  readonly rows: readonly Row[];
  readonly rolloutsPerExample: number;
  readonly temperature: number;
  readonly store: Pick<RolloutStore, 'open' | 'discard'>;
  /** The plan is one group of a stream: how many of its rollouts may fail at the moment, of those that a step may lose. @default its own share */
  readonly allowedFailures?: () => number;
  /** The batch is an evaluation after the step, not the step's own. @default false */
  readonly isEvaluation?: boolean;
}

export interface SamplingParts {
  readonly client: PolicyClient;
  /** The models of the environment's roles. @default none */
  readonly models?: RoleModels;
  /** Where agents find the policy over HTTP. @default nowhere */
  readonly gateway?: AgentGateway;
  readonly config: Pick<TrainingConfig, 'rollouts' | 'seed'> & Partial<Pick<TrainingConfig, 'environment'>>;
  readonly observer: TrainingObserver;
  /** Waits for the servers and gives them the current policy again if they lost it. Resolves with whether one had lost it. */
  readonly recover: (signal: AbortSignal) => Promise<boolean>;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
  /** Shared by the groups of a stream. @default rollouts.max_concurrent for the plan alone */
  readonly slots?: Limiter;
  readonly signal: AbortSignal;
}

export interface SampledBatch {
  /** One per row and index, in the order of the rows; failed ones, and those that were not played, have no reward. */
  readonly trajectories: readonly Trajectory[];
  /** Without those that were not played, which no further attempt would play. */
  readonly failed: number;
  readonly attempts: number;
}

/** Throws TrainingError if too many rollouts keep failing, and at once if it is a reward that fails or if no later rollout can succeed. */
export async function sampleRollouts(plan: SamplingPlan, parts: SamplingParts): Promise<SampledBatch> {
  await using record = await openRecord(plan);
  const planned = new Set(plannedIds(plan));
  // The window may have grown since an earlier process.
  const isKept = (trajectory: Trajectory) => planned.has(trajectory.rolloutId) && (record.isComplete || !isUnplayed(trajectory));
  const latest = new Map(record.recorded.filter(isKept).map((trajectory) => [trajectory.rolloutId, trajectory]));
  const begun = failuresIn(latest);
  // Rollouts of an earlier process are judged as in `repeat`. After a reward was corrected, the whole step is scored by the same code.
  if (!record.isComplete && (begun.some(isOfText) || (begun.length > allowedFailures(plan, parts) && isWhole(begun, allowedFailures(plan, parts)))))
    restart(record, latest);
  const known = new Map<string, KnownOfFailure>();
  const total = planned.size;
  // The number of times that the whole plan was sampled before.
  let round = 0;
  for (let attempt = 1; !record.isComplete; attempt++) {
    const { thrown, ended } = await play(plan, parts, record, { latest, known }, { allowed: allowedFailures(plan, parts), round });
    const allowed = allowedFailures(plan, parts);
    const failures = failuresIn(latest, known);
    const lost = { failedRollouts: failures.length };
    if (ended !== null) {
      if (attempt < MOST_ATTEMPTS && (await isServedAgain(ended, plan, parts))) continue;
      throw new TrainingError(`Stopped at ${placeOf(plan)}: ${sentence(ended.error.message)} Fix this, then continue this run with -R`, lost);
    }
    const isEnough = latest.size === total && failures.length <= allowed;
    // A crash kills the longest rollouts first and biases the batch; retry once.
    if (isEnough && (attempt > 1 || !failures.some(isPolicys))) {
      checkStep(plan, [...latest.values()], parts);
      await record.complete(attempt);
      const left = () => `${sentence(failureText(failures, { played: total, total }))} Failed rollouts are left out of their groups`;
      if (failures.length > 0) parts.report({ kind: 'alarm', message: left() });
      break;
    }
    if (failures.filter(isCodes).length > allowed)
      throw new TrainingError(codeText(plan, thrown ?? failures.find(isCodes)!, moduleOf(plan, parts)), lost);
    const fault = isEnough ? null : lastingFault(plan, { played: latest.size, failures, total, attempt }, moduleOf(plan, parts));
    if (fault !== null) throw fault;
    const spent = failures.find(({ reason }) => reason === 'budget');
    if (!isEnough && spent) throw new TrainingError(`Stopped at ${placeOf(plan)}: ${sentence(spent.message)} Then continue this run with -R`, lost);
    const judgement = isEnough ? '' : `, more than rollouts.max_error_rate allows (${parts.config.rollouts.maxErrorRate})`;
    const text = failureText(failures, { played: latest.size, total, judgement });
    if (attempt >= MOST_ATTEMPTS)
      throw new TrainingError(`Stopped after ${attempt} attempts at ${placeOf(plan)}: ${sentence(text)} ${CORRECT_FAILURES}`, lost);
    if (await repeat({ plan, text, failures, allowed, latest, record }, parts)) round++;
    await pause(parts.config.rollouts.repeatPauseS * 2 ** (attempt - 1), parts.signal);
  }
  // An earlier version of a source may have given its role another name.
  const trajectories = plannedIds(plan).map((id) => withRole(latest.get(id)!, plan.role));
  return { trajectories, failed: failuresIn(latest).length, attempts: Math.max(1, record.attempts) };
}

/** A group of a stream is a part of its step, which is checked as a whole. */
function checkStep(plan: SamplingPlan, latest: readonly Trajectory[], parts: SamplingParts): void {
  if (plan.allowedFailures !== undefined) return;
  // A later phase has rows that the policy wrote, or only those of a few groups.
  checkPlayed(latest, { place: placeOf(plan), allowed: allowedFailures(plan, parts), mayBeNone: plan.phase !== undefined, report: parts.report });
}

const moduleOf = ({ environment }: SamplingPlan, { config }: SamplingParts) => config.environment?.id ?? environment.id;

/** For a group of a stream it changes while the group is played. */
function allowedFailures({ rows, rolloutsPerExample, allowedFailures: ofGroup }: SamplingPlan, { config }: SamplingParts): number {
  return ofGroup?.() ?? Math.floor(config.rollouts.maxErrorRate * rows.length * rolloutsPerExample);
}

/** A failure after which no rollout under the same name can succeed. */
interface Ended {
  readonly error: RolloutError;
  /** The policy's name at the server. */
  readonly model: string;
}

/** Tells whether a server that was restarted without the adapter has been given it again, and reports it if so. */
async function isServedAgain({ error, model }: Ended, plan: SamplingPlan, { recover, report, signal }: SamplingParts): Promise<boolean> {
  if (!isPolicys(error)) return false;
  const isGivenAgain = await recover(signal).catch((thrown: unknown) => {
    // Asking again would report the same wrong key.
    if (thrown instanceof PolicyError) return false;
    throw thrown;
  });
  if (!isGivenAgain) return false;
  report({ kind: repeatKind(plan), message: `${sentence(`${model} was lost: ${error.message}`)} Sampling failed rollouts again` });
  return true;
}

interface Attempted {
  readonly plan: SamplingPlan;
  readonly text: string;
  readonly failures: readonly Failure[];
  readonly allowed: number;
  readonly latest: Map<string, Trajectory>;
  readonly record: StepRollouts;
}

function restart(record: StepRollouts, latest: Map<string, Trajectory>): void {
  // If this process is killed, the next one must not mix the two attempts.
  if (latest.size > 0) record.restart();
  latest.clear();
}

/** Announces which rollouts are sampled again, and forgets them. Returns whether that is the whole plan. */
async function repeat({ plan, text, failures, allowed, latest, record }: Attempted, { report, recover, signal }: SamplingParts): Promise<boolean> {
  const kind = repeatKind(plan);
  const arePolicys = failures.some(isPolicys);
  const whole = isWhole(failures, allowed);
  if (!whole) {
    report({
      kind,
      message: `${sentence(text)} ${arePolicys ? 'Sampling failed rollouts again' : 'Sampling the rollouts that could not be scored again'}`,
    });
  } else {
    report({ kind, message: `${sentence(text)} Sampling the whole ${wholeOf(plan)} again` });
    restart(record, latest);
  }
  if (arePolicys) await recover(signal);
  return whole;
}

/** Waits, because a retriever or a server may be restarting. */
async function pause(seconds: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const waited = new Promise<void>((done) => (timer = setTimeout(done, timerMs(seconds * 1000))));
  await untilAborted(waited, signal, () => cancelled(signal, 'Stopped before sampling failed rollouts again')).finally(() => clearTimeout(timer));
}

/**
 * Samples missing rollouts; stops early once more have failed than are allowed, or none can succeed. Returns the first failure of a reward, and the first
 * that ends the run.
 */
async function play(
  { step, phase, role, isPaidLater = false, environment, rows, rolloutsPerExample, temperature }: SamplingPlan,
  { client, models, gateway, config, observer, report, slots, signal }: SamplingParts,
  record: StepRollouts,
  { latest, known }: { readonly latest: Map<string, Trajectory>; readonly known: Map<string, KnownOfFailure> },
  { allowed, round }: { readonly allowed: number; readonly round: number },
): Promise<{ readonly thrown: (RolloutError & Pick<Rollout, 'rolloutId'>) | null; readonly ended: Ended | null }> {
  const isDone = (row: Row, index: number) => {
    const found = latest.get(`${row.exampleId}/${index}`);
    return found !== undefined && (found.error === null || isOfText(found.error) || isUnplayed(found));
  };
  const indices = Array.from({ length: rolloutsPerExample }, (_, index) => index);
  const groups: RolloutGroup<Row>[] = rows.flatMap((row) => {
    const missing = indices.filter((index) => !isDone(row, index));
    // Group rewards compare all members of a group.
    return missing.length === 0 ? [] : [{ row, indices: environment.rubric.hasGroupRewards ? indices : missing }];
  });
  const total = rows.length * rolloutsPerExample;
  let done = total - groups.reduce((sum, group) => sum + group.indices.length, 0);
  let lost = failuresIn(latest).filter(isOfText).length;
  let failed = lost + [...latest.values()].filter(isUnplayed).length;
  let thrown: (RolloutError & Pick<Rollout, 'rolloutId'>) | null = null;
  let ended: Ended | null = null;
  let played = 0;
  const unclean: RolloutError[] = [];
  const scored: Pick<Rollout, 'metricErrors'>[] = [];
  const { maxTokens, maxConcurrent, maxScoring, timeoutS, scoringTimeoutS } = config.rollouts;
  const tooMany = new AbortController();
  // With the same seed, a seeded sampler would write the same texts, which would fail again.
  const seed = Random.fromSeed(config.seed)
    .fork([`step ${step}`, ...(phase === undefined ? [] : [phase]), ...(round === 0 ? [] : [`round ${round}`])].join(', '))
    .uint32();
  observer.onRollouts?.({ step, done, total, failed });
  const onRollout = (rollout: Rollout) => {
    const paid = trajectoryOf(rollout, role);
    const trajectory = isPaidLater ? unpaid(paid) : paid;
    record.add(trajectory, rollout.asked, traceRecords(rollout));
    latest.set(trajectory.rolloutId, trajectory);
    done++;
    played++;
    if (rollout.cleanUpError !== null) unclean.push(rollout.cleanUpError);
    if (rollout.error === null) scored.push(rollout.metricErrors === undefined ? {} : { metricErrors: rollout.metricErrors });
    else {
      failed++;
      if (!isUnplayed(trajectory)) lost++;
      const { stack, isOfCode } = rollout.error;
      known.set(rollout.rolloutId, { ...(stack === undefined ? {} : { stack }), ...(isOfCode === undefined ? {} : { isOfCode }) });
      if (isCodes(rollout.error)) thrown ??= { ...rollout.error, rolloutId: rollout.rolloutId };
      if (rollout.error.endsRun === true) ended ??= { error: rollout.error, model: rollout.policy.model };
      observer.onFailedRollout?.({ step, rolloutId: rollout.rolloutId, error: rollout.error });
    }
    observer.onRollouts?.({ step, done, total, failed });
    if (lost > allowed || ended !== null) tooMany.abort();
  };
  const groupsPlayed = runRollouts(groups, {
    environment,
    client,
    ...(models === undefined ? {} : { models }),
    ...(gateway === undefined ? {} : { gateway }),
    sampling: { temperature, topP: 1 },
    maxTokens,
    maxConcurrent,
    ...(slots === undefined ? {} : { slots }),
    timeoutMs: timeoutS === null ? null : timeoutS * 1000,
    ...(maxScoring === null ? {} : { maxScoring }),
    ...(scoringTimeoutS === null ? {} : { scoringTimeoutMs: scoringTimeoutS * 1000 }),
    timeoutNames: { rollout: 'rollouts.timeout_s', scoring: 'rollouts.scoring_timeout_s' },
    seed,
    signal: AbortSignal.any([signal, tooMany.signal]),
    onRollout,
  });
  try {
    // Each rollout is on file as soon as it has its score; its group is formed when all are there.
    for await (const _ of groupsPlayed);
  } catch (error) {
    if (!tooMany.signal.aborted || signal.aborted || !(error instanceof CancelledError)) throw error;
  }
  if (unclean.length > 0) report({ kind: 'alarm', message: cleanUpText(unclean[0]!.chain, { failed: unclean.length, played }) });
  for (const message of metricErrorTexts(scored)) report({ kind: 'alarm', message });
  return { thrown, ended };
}
