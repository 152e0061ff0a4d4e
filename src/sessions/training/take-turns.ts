/**
 * Makes a session's parts take turns on one GPU: vLLM sleeps before the worker computes, and wakes before anything is sampled or published. The loop does
 * not know; with max_staleness 0 it never samples and trains at once.
 */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { PolicyError, PublishError } from '../../core/errors.ts';
import type { LaunchedServers } from '../../launch/launched-servers.ts';
import type { SleepTurns } from '../../launch/sleep-turns.ts';
import type { GradientBackend } from '../../trainer/gradient-backend.ts';
import type { TrainingSession } from '../../trainer/training-session.ts';
import type { PolicyServers, WeightPublisher } from '../../trainer/weight-publisher.ts';

/** `signal`: the session's signal, for calls without one of their own. */
export function takeTurns(session: TrainingSession, turns: SleepTurns, signal: AbortSignal): TrainingSession {
  const { backend, client, versions, name } = session;
  const wake = (by: AbortSignal) => turns.wake(by, async () => backend.releaseMemory?.());
  return {
    backend: sleepingBackend(backend, turns, signal),
    client: wakingClient(client, wake),
    versions,
    publisher: wakingPublisher(session, wake, turns),
    name,
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}

function sleepingBackend(backend: GradientBackend, turns: SleepTurns, signal: AbortSignal): GradientBackend {
  return {
    // A resume can change its description.
    get capabilities() {
      return backend.capabilities;
    },
    adapter: backend.adapter,
    async forward(batch, options) {
      await turns.sleep(options.signal);
      return backend.forward(batch, options);
    },
    async backward(batchId, gradient) {
      await turns.sleep(signal);
      return backend.backward(batchId, gradient);
    },
    async optimStep(options) {
      await turns.sleep(signal);
      return backend.optimStep(options);
    },
    drop: (batchId) => backend.drop(batchId),
    zeroGrad: () => backend.zeroGrad(),
    hold: () => backend.hold(),
    async restore() {
      await turns.sleep(signal);
      return backend.restore();
    },
    isFinite: () => backend.isFinite(),
    movement: () => backend.movement(),
    saveAdapter: (directory) => backend.saveAdapter(directory),
    saveState: (directory) => backend.saveState(directory),
    loadState: (directory) => backend.loadState(directory),
    close: () => backend.close(),
  };
}

type Wake = (signal: AbortSignal) => Promise<void>;

function wakingClient(client: PolicyClient, wake: Wake): PolicyClient {
  return {
    capabilities: client.capabilities,
    name: client.name,
    async lease(signal, options) {
      await wake(signal);
      return client.lease(signal, options);
    },
    close: () => client.close(),
  };
}

/** Restarts a server that died during the worker's turn only when the server's turn begins: until then the GPU has no room for it. */
export function reviveInTurn(servers: LaunchedServers, turns: SleepTurns): PolicyServers {
  return {
    replicas: servers.replicas,
    revive: (replica, signal) => turns.whileAwake(() => servers.revive(replica, signal), signal),
    renew: (replica, why, signal) => turns.whileAwake(() => servers.renew(replica, why, signal), signal),
    watch: (onLost) => servers.watch(onLost),
  };
}

/** Unloading an adapter needs no GPU, so `retire` does not wake the server, and may run during training. */
function wakingPublisher({ publisher, versions }: Pick<TrainingSession, 'publisher' | 'versions'>, wake: Wake, turns: SleepTurns): WeightPublisher {
  /** The reason why the server does not wake; null if it does. */
  const wakeFailure = async (signal: AbortSignal): Promise<PublishError | null> => {
    try {
      await wake(signal);
      return null;
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      return new PublishError(error.message, { cause: error, retryable: error.retryable });
    }
  };
  return {
    async publish(request, signal) {
      const reason = await wakeFailure(signal);
      return reason === null ? publisher.publish(request, signal) : { ok: false, kept: versions.current(), reason };
    },
    async rehearse(request, others, signal) {
      const reason = await wakeFailure(signal);
      return reason === null ? publisher.rehearse(request, others, signal) : { reason, refused: [] };
    },
    // In the background, so it waits for the server's turn; `/sleep` would end its requests.
    catchUp: (replica, signal) => turns.whileAwake(() => publisher.catchUp(replica, signal), signal),
    clear: (signal) => publisher.clear(signal),
    retire: (olderThan, signal) => publisher.retire(olderThan, signal),
    close: () => publisher.close(),
  };
}
