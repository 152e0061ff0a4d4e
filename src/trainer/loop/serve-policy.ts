/** Serves the backend's weights to whatever samples next: the next step, an evaluation, or users after the run. */
import { PolicyError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Environment } from '../../core/environment.ts';
import { firstRow } from '../../core/training-rows.ts';
import { probePrompt } from '../publisher/probe-prompt.ts';
import type { ProbeText, ProbeTexts, Published, ServedPolicy } from '../publisher/served-policy.ts';
import type { RunRecords } from '../records/run-records.ts';
import type { TrajectorySource } from '../trajectory-source.ts';
import { tokenParts } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';
import type { Evaluation } from './evaluation.ts';
import type { Progress } from './progress.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';

export interface Serving {
  readonly run: Pick<TrainingRun, 'environment'> & { readonly config: TrainingConfig };
  readonly session: Pick<TrainingSession, 'backend' | 'client' | 'versions' | 'isServed'>;
  readonly records: Pick<RunRecords, 'served'>;
  readonly source: TrajectorySource;
  readonly evaluation: Evaluation;
  readonly policy: ServedPolicy;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

/** Publishes the backend's version; null if the servers already have it or nothing will be sampled from it. */
export async function servePolicy(parts: Serving, batch: readonly Trajectory[]): Promise<Published | null> {
  const { policy, progress, records, session, signal } = parts;
  if (isServing(parts) || !isNeeded(parts)) return null;
  const served = await policy.publish(progress.version, await probeTexts(parts, batch), signal);
  records.served(session.versions.current(), session.versions.replicas);
  return served;
}

/**
 * Publishes the version that a run resumes with, and resolves with whether that was needed. Waits once for a server that is down, because the cause that killed the
 * last process may have killed it too. `recorded` reads rollouts of the run. If the environment shows images, one with images is needed to verify the version.
 */
export async function servePolicyAtStart(parts: Serving, recorded: () => Promise<readonly Trajectory[]>): Promise<boolean> {
  const { policy, run, signal } = parts;
  const probed = run.environment.needs?.includes('images') === true ? (await recorded()).filter(hasImages) : [];
  const serve = async () => {
    const served = await servePolicy(parts, probed);
    if (served?.ok === false) throw served.reason;
    return served !== null;
  };
  try {
    return await serve();
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    await policy.recover(signal);
    return await serve();
  }
}

/** True if whatever samples next is played by the trainer's own version; also for a run that plays nothing. */
export function isServing({ session, policy, progress }: Pick<Serving, 'session' | 'policy' | 'progress'>): boolean {
  return session.isServed === false || policy.version === progress.version;
}

function isNeeded({ run: { config }, source, evaluation, progress: { step, version } }: Serving): boolean {
  const last = totalSteps(config);
  return step >= last || evaluation.needsPolicy(step, version) || source.needsPolicy(step + 1);
}

/** The shortest sequences suffice to tell two sets of weights apart; without one, the first prompt. */
export async function probeTexts(
  { session, run, signal }: Pick<Serving, 'session' | 'run' | 'signal'>,
  batch: readonly Trajectory[],
): Promise<ProbeTexts> {
  const trained = batch
    .flatMap(tokenParts)
    .filter(({ targets }) => targets.length > 0)
    .toSorted((a, b) => a.ids.length - b.ids.length);
  const pictured = trained.map(behindImages).find(({ targets }) => targets.length > 0);
  const text = trained.find((part) => !hasImages(part)) ?? trained.map(beforeImages).find(({ targets }) => targets.length > 0);
  return {
    text: text ?? (await promptProbe(session, run.environment, signal)),
    ...(pictured === undefined ? {} : { pictured }),
  };
}

function hasImages({ images = [] }: ProbeText): boolean {
  return images.length > 0;
}

/** With the targets that have an image before them. */
function behindImages({ ids, targets, images = [] }: ProbeText): ProbeText {
  const first = images[0]?.offset ?? Infinity;
  return { ids, images, targets: targets.filter((target) => target > first) };
}

/** The tokens before the first image. */
function beforeImages({ ids, targets, images = [] }: ProbeText): ProbeText {
  const end = images[0]?.offset ?? ids.length;
  return { ids: ids.subarray(0, end), targets: targets.filter((target) => target < end) };
}

async function promptProbe(
  { client, backend }: Pick<TrainingSession, 'client' | 'backend'>,
  environment: Environment,
  signal: AbortSignal,
): Promise<ProbeText> {
  const ids = await probePrompt(client, firstRow(environment).prompt, { backend, signal });
  return { ids, targets: Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1) };
}
