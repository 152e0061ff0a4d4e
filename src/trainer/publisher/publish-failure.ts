/** Explains why too few replicas took a version, and whether waiting for the others helps. */
import type { PolicyRef } from '../../clients/policy-client.ts';
import { describeError, PublishError, TimeoutError, VfError } from '../../core/errors.ts';
import type { LoraReplica } from './lora-routes.ts';

export interface ReplicaFailure {
  readonly replica: LoraReplica;
  readonly error: VfError;
}

export interface PublishCounts {
  /** Number of all replicas of the run. */
  readonly replicas: number;
  /** Number of replicas that took the version. */
  readonly loaded: number;
  readonly quorum: number;
  /** The actions against NaN at replicas, in words. */
  readonly healed: readonly string[];
}

/** Too few replicas took a version. */
export class QuorumError extends PublishError {
  /** Replicas that would refuse it again, by their names. */
  readonly refused: readonly string[];

  constructor(message: string, options: ConstructorParameters<typeof PublishError>[1], refused: readonly string[]) {
    super(message, options);
    this.refused = refused;
  }
}

/** Retryable if a quorum is possible once the absent replicas answer. The message names the failure that decides, or the replicas that refused the version. */
export function tooFewReplicas(failed: readonly ReplicaFailure[], { replicas, loaded, quorum, healed }: PublishCounts): QuorumError {
  const lasting = failed.filter(({ error }) => !error.retryable);
  const refused = lasting.map(({ replica }) => replica.url);
  const canRecover = replicas - lasting.length >= quorum;
  const cause = canRecover ? failed.find(({ error }) => error.retryable) : lasting[0];
  if (cause === undefined) {
    const away = `${loaded} of ${replicas} replicas took it and ${replicas - loaded - failed.length} did not answer, but publish.quorum is ${quorum}`;
    const refusals = lasting.map(({ replica, error }) => `${replica.url} refused it: ${error.message}`);
    return new QuorumError([away, ...refusals, ...healed].join('; '), { retryable: true }, refused);
  }
  const others = loaded === 0 ? '' : '; the others have unloaded it';
  const where = failed.length === replicas ? '' : ` (${failed.length} of ${replicas} replicas${others})`;
  const { message, status, endsRun } = cause.error;
  const options = { cause: cause.error, retryable: canRecover, endsRun: endsRun && !canRecover, ...(status === null ? {} : { status }) };
  return new QuorumError([`at ${cause.replica.url}${where}: ${message}`, ...healed].join('; '), options, refused);
}

/** True if the replica itself did not answer, or not in time: nothing can be sent to it now. */
export function isUnreachable(error: VfError): boolean {
  return error instanceof TimeoutError || (error.retryable && error.status === null);
}

export function asVfError(error: unknown): VfError {
  return error instanceof VfError ? error : new PublishError(describeError(error), { cause: error });
}

/** Why a version was not published, and which serves on. */
export function publishFailure(version: number, error: unknown, kept: PolicyRef): PublishError {
  const { message, retryable, status, endsRun } = asVfError(error);
  return new PublishError(`Version ${version} was not published: ${message}. Version ${kept.version} (${kept.model}) continues to serve`, {
    cause: error,
    retryable,
    endsRun,
    ...(status === null ? {} : { status }),
  });
}
