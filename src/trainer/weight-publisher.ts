/**
 * Interface between the trainer and the policy servers: switches new rollouts to a version of the weights, or keeps the old version serving and
 * says why.
 */
import type { PlacedImage } from '../core/message.ts';
import type { PolicyRef } from '../clients/policy-client.ts';
import type { PublishError, VfError } from '../core/errors.ts';
import type { AdapterManifest } from './gradient-backend.ts';

/** The trainer's log-probs of a sequence under the new weights: the served version must agree. */
export interface LogProbProbe {
  /** One sequence. [T] */
  readonly ids: Int32Array;
  /** The images among the ids, in order. @default none */
  readonly images?: readonly PlacedImage[];
  /** Indices in `ids` of the tokens to compare, ascending, from 1, none of them an image's. [M], M ≥ 1 */
  readonly targets: Int32Array;
  /** Log-prob of each target at temperature 1, from the gradient backend. [M] */
  readonly logProbs: Float32Array;
  /** The log-probs without the adapter, which show how much the server's base and the new version must differ. [M] @default unknown */
  readonly baseLogProbs?: Float32Array;
  /** Largest mean |difference| that passes, in nats. */
  readonly tolerance: number;
}

export interface PublishRequest {
  /** Above the current version, or the current one again after a server lost it; it then serves under a new name. */
  readonly version: number;
  /** The version's name at the servers; never used before in this run, not even by a publish that failed. */
  readonly name: string;
  readonly manifest: AdapterManifest;
  /** A sequence of text alone. */
  readonly probe: LogProbProbe;
  /** A second one with images: a server may apply an adapter to one kind and not to the other. @default the run has no images */
  readonly pictured?: LogProbProbe;
}

/** Seconds of each part, and the probe's result. */
export interface PublishReport {
  readonly checkSeconds: number;
  /** Loading on the slowest replica. */
  readonly loadSeconds: number;
  readonly probeSeconds: number;
  /** On the worst replica, in nats. */
  readonly probeMeanDifference: number;
  readonly probeMaxDifference: number;
}

export type PublishResult =
  | { readonly ok: true; readonly ref: PolicyRef; readonly report: PublishReport }
  | {
      readonly ok: false;
      readonly kept: PolicyRef;
      readonly reason: PublishError;
      /** Replicas that would refuse the version again, by their names. @default unknown */
      readonly refused?: readonly string[];
    };

/** `reason`: why too few replicas would take a version; null if enough would, or if the others may answer later. `refused`: the replicas that would not. */
export interface RehearsalResult {
  readonly reason: VfError | null;
  readonly refused: readonly { readonly replica: string; readonly message: string }[];
}

/** `isLoaded`: the replica had lost the version, or never had it, and got it now. */
export type CatchUpResult = { readonly ok: true; readonly isLoaded: boolean } | { readonly ok: false; readonly reason: PublishError };

export interface WeightPublisher {
  /**
   * Checks the adapter, loads it under its name on every replica that does not rest, compares log-probs, then advances the policy versions. Replicas
   * that fail begin to rest, if enough others succeed (`publish.quorum`). Otherwise the old version continues to serve and the new one is unloaded
   * wherever it was loaded. A failure is a result, not an exception: throws CancelledError only. The failure's `endsRun` is true if no later version can
   * be published either.
   */
  publish(request: PublishRequest, signal: AbortSignal): Promise<PublishResult>;
  /**
   * Loads and compares an adapter as `publish` does, loads it again under the `others`' names, then unloads it everywhere. The current version serves
   * throughout. Throws CancelledError only. Must not run at the same time as `publish`.
   */
  rehearse(request: PublishRequest, others: readonly string[], signal: AbortSignal): Promise<RehearsalResult>;
  /**
   * Brings a resting replica that answers again to the current version, under the same name, compares log-probs, then admits it. A failure leaves it at
   * rest. Throws CancelledError only. May run at the same time as `catchUp` of another replica, but not as `publish` or `retire`.
   */
  catchUp(replica: string, signal: AbortSignal): Promise<CatchUpResult>;
  /**
   * Unloads and deletes adapters that earlier sessions of this run left behind: they are useless now and would occupy the server's adapter slots. Call it
   * before the first publish. Adapters that cannot be removed stay. Throws CancelledError only.
   */
  clear(signal: AbortSignal): Promise<void>;
  /** Waits until no lease holds a version below `olderThan`, then unloads those versions and deletes the directories that the run created. */
  retire(olderThan: number, signal: AbortSignal): Promise<void>;
  /** Retires nothing: the current version continues to serve. */
  close(): Promise<void>;
}

/** The policy servers as a training run sees them: which replicas there are, and whether one answers. */
export interface PolicyServers {
  /** Names of the replicas: their URLs without `/v1` and without secrets. */
  readonly replicas: readonly string[];
  /**
   * Waits until the replica answers; a server that this run launched is restarted if it is dead. Says nothing about its adapters. Throws PolicyError if
   * the replica does not come back in time, or at once if waiting cannot help. May be called again.
   */
  revive(replica: string, signal: AbortSignal): Promise<void>;
  /**
   * Restarts a server that this run launched and that answers but computes nothing. `why` says what it did not do, without a full stop. Throws PolicyError after too
   * many restarts. @default none was launched
   */
  renew?(replica: string, why: string, signal: AbortSignal): Promise<void>;
  /** Calls `onLost` when a server that this run launched ends, until disposed. @default none was launched */
  watch?(onLost: (replica: string, why: string) => void): Disposable;
}
