/**
 * Samples a batch of rollouts. Each is recorded before anything else happens, so it survives a kill and only missing or failed rollouts are sampled
 * again. If too many fail because of the servers, this waits for the servers; if because of the environment, it samples the whole batch again. The
 * trainer never gets a batch with too many failures.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyClient } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { CancelledError, TrainingError } from '../core/errors.ts';
import type { RoleModels } from '../core/model.ts';
import { Random } from '../core/random.ts';
import type { FailureSource, Rollout } from '../rollouts/rollout.ts';
import { type RolloutGroup, runRollouts } from '../rollouts/run-rollouts.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { RolloutStore, StepRollouts } from './rollout-store.ts';
import type { TrainingEvent, TrainingObserver } from './training-observer.ts';
import { type Trajectory, trajectoryOf } from './trajectory.ts';

const MOST_ATTEMPTS = 5;
const isPolicys = ({ source }: { readonly source: FailureSource }) => source === 'policy';

export interface SamplingPlan {
  readonly step: number;
  readonly environment: Environment;
  readonly rows: readonly Row[];
  readonly rolloutsPerExample: number;
  readonly temperature: number;
  readonly store: RolloutStore;
}

/** The part of a plan that determines its rollouts. */
export type RolloutPlan = Pick<SamplingPlan, 'step' | 'rows' | 'rolloutsPerExample' | 'store'>;

export interface SamplingParts {
  readonly client: PolicyClient;
  /** The models of the environment's roles. @default none */
  readonly models?: RoleModels;
  readonly config: Pick<TrainingConfig, 'rollouts' | 'seed'>;
  readonly observer: TrainingObserver;
  /** Waits for the servers and publishes the current policy again if they lost it. */
  readonly recover: (signal: AbortSignal) => Promise<void>;
  readonly tell: (event: Omit<TrainingEvent, 'step'>) => void;
  readonly signal: AbortSignal;
}

export interface SampledBatch {
  /** One per row and index, in the order of the rows; failed ones have no reward. */
  readonly trajectories: readonly Trajectory[];
  readonly failed: number;
  readonly attempts: number;
}

/** Throws TrainingError if too many rollouts keep failing. */
export async function sampleRollouts(plan: SamplingPlan, parts: SamplingParts): Promise<SampledBatch> {
  await using record = await openRecord(plan);
  const planned = new Set(plannedIds(plan));
  const latest = new Map(record.recorded.flatMap((trajectory) => (planned.has(trajectory.rolloutId) ? [[trajectory.rolloutId, trajectory]] : [])));
  const total = planned.size;
  const allowed = Math.floor(parts.config.rollouts.maxErrorRate * total);
  for (let attempt = 1; !record.isComplete; attempt++) {
    await play(plan, parts, record, latest, allowed);
    const failures = [...latest.values()].flatMap(({ error }) => error ?? []);
    const isEnough = latest.size === total && failures.length <= allowed;
    // A crash kills the longest rollouts first and biases the batch; retry once.
    if (isEnough && (attempt > 1 || !failures.some(isPolicys))) {
      await record.complete(attempt);
      if (failures.length > 0) parts.tell({ kind: 'alarm', message: `${failureText(failures, total)}. Failed rollouts leave their groups` });
      break;
    }
    const judgement = isEnough ? '' : `, more than rollouts.max_error_rate allows (${parts.config.rollouts.maxErrorRate})`;
    const text = failureText(failures, total, judgement);
    if (attempt >= MOST_ATTEMPTS) throw new TrainingError(`Stopped after ${attempt} attempts at step ${plan.step}: ${text}`);
    if (failures.some(isPolicys)) {
      parts.tell({ kind: 'step_repeated', message: `${text}. Sampling failed rollouts again` });
      await parts.recover(parts.signal);
    } else if (failures.every(({ source }) => source === 'reward' || source === 'model')) {
      // Which rollouts a judge could not score says nothing of them.
      parts.tell({ kind: 'step_repeated', message: `${text}. What could not be scored is sampled again` });
    } else {
      // The rollouts that a broken environment lets finish are biased: without a retriever, they are those that never search.
      parts.tell({ kind: 'step_repeated', message: `${text}. Sampling the whole step again` });
      latest.clear();
    }
    await pause(parts.config.rollouts.repeatPauseS * 2 ** (attempt - 1), parts.signal);
  }
  const trajectories = plannedIds(plan).map((id) => latest.get(id)!);
  return { trajectories, failed: trajectories.filter(({ error }) => error !== null).length, attempts: Math.max(1, record.attempts) };
}

/** Waits, because a retriever or a server may be restarting. */
async function pause(seconds: number, signal: AbortSignal): Promise<void> {
  await sleep(seconds * 1000, undefined, { signal }).catch((cause: unknown) => {
    throw new CancelledError('Stopped before sampling failed rollouts again', { cause });
  });
}

/** Whether the plan's step is complete and has all of its rollouts. Creates an empty file if the step has none. */
export async function isRecorded(plan: RolloutPlan): Promise<boolean> {
  await using record = await plan.store.open(plan.step);
  return hasAll(record, plan);
}

/** Opens the recorded rollouts; discards them if the step is complete for another plan, such as an evaluation with fewer rows. */
async function openRecord(plan: SamplingPlan): Promise<StepRollouts> {
  const { store, step } = plan;
  const record = await store.open(step);
  if (!record.isComplete || hasAll(record, plan)) return record;
  await record[Symbol.asyncDispose]();
  await store.discard(step);
  return store.open(step);
}

function hasAll({ isComplete, recorded }: StepRollouts, plan: RolloutPlan): boolean {
  const found = new Set(recorded.map(({ rolloutId }) => rolloutId));
  return isComplete && plannedIds(plan).every((id) => found.has(id));
}

function plannedIds({ rows, rolloutsPerExample }: RolloutPlan): string[] {
  return rows.flatMap((row) => Array.from({ length: rolloutsPerExample }, (_, index) => `${row.exampleId}/${index}`));
}

function failureText(failures: readonly { readonly type: string; readonly message: string }[], total: number, judgement = ''): string {
  const [first] = failures;
  return `${failures.length} of ${total} rollouts failed${judgement}; the first: ${first?.type}: ${first?.message}`;
}

/** Samples missing rollouts; stops early once more have failed than are allowed. */
async function play(
  { step, environment, rows, rolloutsPerExample, temperature }: SamplingPlan,
  { client, models, config, observer, signal }: SamplingParts,
  record: StepRollouts,
  latest: Map<string, Trajectory>,
  allowed: number,
): Promise<void> {
  const isDone = (row: Row, index: number) => latest.get(`${row.exampleId}/${index}`)?.error === null;
  const indices = Array.from({ length: rolloutsPerExample }, (_, index) => index);
  const groups: RolloutGroup<Row>[] = rows.flatMap((row) => {
    const missing = indices.filter((index) => !isDone(row, index));
    // Group rewards compare all members of a group.
    return missing.length === 0 ? [] : [{ row, indices: environment.rubric.hasGroupRewards ? indices : missing }];
  });
  const total = rows.length * rolloutsPerExample;
  let done = total - groups.reduce((sum, group) => sum + group.indices.length, 0);
  let failed = 0;
  const { maxTokens, maxConcurrent, maxScoring, timeoutS, scoringTimeoutS } = config.rollouts;
  const tooMany = new AbortController();
  const seed = Random.fromSeed(config.seed).fork(`step ${step}`).uint32();
  observer.onRollouts?.({ step, done, total, failed });
  const onRollout = (rollout: Rollout) => {
    const trajectory = trajectoryOf(rollout);
    record.add(trajectory, rollout.asked);
    latest.set(trajectory.rolloutId, trajectory);
    done++;
    if (rollout.error !== null) {
      failed++;
      observer.onFailedRollout?.({ step, rolloutId: rollout.rolloutId, error: rollout.error });
    }
    observer.onRollouts?.({ step, done, total, failed });
    if (failed > allowed) tooMany.abort();
  };
  const groupsPlayed = runRollouts(groups, {
    environment,
    client,
    ...(models === undefined ? {} : { models }),
    sampling: { temperature, topP: 1 },
    maxTokens,
    maxConcurrent,
    timeoutMs: timeoutS === null ? null : timeoutS * 1000,
    ...(maxScoring === null ? {} : { maxScoring }),
    ...(scoringTimeoutS === null ? {} : { scoringTimeoutMs: scoringTimeoutS * 1000 }),
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
}
