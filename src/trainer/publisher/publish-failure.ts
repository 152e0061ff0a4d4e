/** Why too few replicas took a version, and whether waiting for the others helps. */
import { describeError, PublishError, TimeoutError, VfError } from '../../core/errors.ts';
import type { LoraReplica } from './lora-routes.ts';

export interface ReplicaFailure {
  readonly replica: LoraReplica;
  readonly error: VfError;
}

export interface PublishCounts {
  /** All of the run. */
  readonly replicas: number;
  /** Those that took the version. */
  readonly loaded: number;
  readonly quorum: number;
  /** What was done about replicas that computed NaN, in words. */
  readonly healed: readonly string[];
}

/** Retryable if a quorum is possible once the replicas answer that do not now; otherwise the first lasting failure. */
export function tooFewReplicas(failed: readonly ReplicaFailure[], { replicas, loaded, quorum, healed }: PublishCounts): PublishError {
  const lasting = failed.filter(({ error }) => !error.retryable);
  const canRecover = replicas - lasting.length >= quorum;
  const cause = canRecover ? failed.find(({ error }) => error.retryable) : lasting[0];
  if (cause === undefined) {
    const text = `${loaded} of ${replicas} replicas took it and ${replicas - loaded - failed.length} do not answer, but publish.quorum is ${quorum}`;
    return new PublishError(text, { retryable: true });
  }
  const others = loaded === 0 ? '' : '; the others have unloaded it';
  const where = failed.length === replicas ? '' : ` (${failed.length} of ${replicas} replicas${others})`;
  const { message, status, endsRun } = cause.error;
  return new PublishError([`at ${cause.replica.url}${where}: ${message}`, ...healed].join('; '), {
    cause: cause.error,
    retryable: canRecover,
    endsRun: endsRun && !canRecover,
    ...(status === null ? {} : { status }),
  });
}

/** Whether the replica itself did not answer, or not in time: nothing can be sent to it now. */
export function isUnreachable(error: VfError): boolean {
  return error instanceof TimeoutError || (error.retryable && error.status === null);
}

export function asVfError(error: unknown): VfError {
  return error instanceof VfError ? error : new PublishError(describeError(error), { cause: error });
}
