/** The end of a run at servers that it did not start: its adapters leave them, and what no longer serves is marked, because the summary names a server that does. */
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, type VfError } from '../../core/errors.ts';
import { firstNames } from '../../core/first-names.ts';
import type { LeftAdapter, LoadedAdapters } from './loaded-adapters.ts';
import type { LoraReplica } from './lora-routes.ts';
import { isUnreachable } from './publish-failure.ts';

export interface Withdrawal {
  readonly adapters: LoadedAdapters;
  readonly replicas: readonly LoraReplica[];
  readonly versions: PolicyVersions;
  /** The servers' name of the base. */
  readonly baseModel: string;
  /** The adapter that serves stays, to serve after the run. */
  readonly keeps: boolean;
  readonly signal: AbortSignal;
}

/**
 * Unloads the run's adapters, the one that serves too unless it is kept; other runs' adapters stay. Replicas that do not answer, or have lost the one that is kept, are marked as
 * resting. Resolves with a line for each server that answers and still has an adapter of the run.
 */
export async function withdrawAdapters({ adapters, replicas, versions, baseModel, keeps, signal }: Withdrawal): Promise<readonly string[]> {
  const { model } = versions.current();
  const kept = keeps && model !== baseModel ? model : null;
  const left = await adapters.withdraw(kept, signal);
  for (const { replica, error } of left) if (isSilent(error)) versions.replicas.lose(replica.url);
  const lacksKept = async (replica: LoraReplica) => (await replica.card(kept!, signal).catch(() => null)) === null;
  const check = async (replica: LoraReplica) => {
    if (!versions.replicas.isResting(replica.url) && (await lacksKept(replica))) versions.replicas.lose(replica.url);
  };
  if (kept !== null) await Promise.all(replicas.map(check));
  return replicas.flatMap((replica) => {
    const there = left.filter((each) => each.replica === replica && !isSilent(each.error));
    return there.length === 0 ? [] : [leftText(there)];
  });
}

/** The server did not answer at all. */
function isSilent(error: VfError): boolean {
  return isUnreachable(error) || error instanceof CancelledError;
}

function leftText(left: readonly LeftAdapter[]): string {
  const { replica, error } = left[0]!;
  const them = left.length === 1 ? 'it' : 'them';
  return `${replica.url} still has ${firstNames(left.map(({ name }) => name))}: ${error.message}. Unload ${them} with POST /v1/unload_lora_adapter, or restart the server`;
}
