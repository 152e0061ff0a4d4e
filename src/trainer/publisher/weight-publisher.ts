/**
 * The joint between the trainer and whatever serves the policy: makes a version of the weights the one that new rollouts use, or keeps the old one
 * serving and says why. It mints the name of each version, and never gives a name twice.
 */
import type { PolicyRef } from '../../clients/policy-client.ts';
import type { PublishError } from '../../core/errors.ts';
import type { AdapterManifest } from '../gradients/gradient-backend.ts';

/** What the trainer itself thinks of a text under the new weights: the served version must agree. */
export interface LogProbProbe {
  /** One sequence. [T] */
  readonly ids: Int32Array;
  /** Places in `ids` of the tokens that are compared, ascending, none 0. [M], M ≥ 1 */
  readonly targets: Int32Array;
  /** Log-prob of each target at temperature 1, as the gradient backend computed it. [M] */
  readonly logProbs: Float32Array;
  /** The same without the adapter: says how much of a difference the server must show between its base and the new version. [M] @default not known */
  readonly baseLogProbs?: Float32Array;
  /** Largest mean |difference| that passes, in nats. */
  readonly tolerance: number;
}

export interface PublishRequest {
  /** Above the current version, or the current one again after a server lost it: it then serves under a new name. */
  readonly version: number;
  readonly manifest: AdapterManifest;
  readonly probe: LogProbProbe;
}

/** Seconds of each part, and what the probe found. */
export interface PublishReport {
  readonly checkSeconds: number;
  /** The server's own part: the slowest replica. */
  readonly loadSeconds: number;
  readonly probeSeconds: number;
  /** Of the worst replica, in nats. */
  readonly probeMeanDifference: number;
  readonly probeMaxDifference: number;
}

export type PublishResult =
  | { readonly ok: true; readonly ref: PolicyRef; readonly report: PublishReport }
  | { readonly ok: false; readonly kept: PolicyRef; readonly reason: PublishError };

export interface WeightPublisher {
  /**
   * Checks the adapter, loads it on every replica under a name of its own, compares log-probs, then advances the policy versions. A failure is a
   * result, not an exception: the old version goes on serving and whatever had been loaded is unloaded. Throws CancelledError only.
   */
  publish(request: PublishRequest, signal: AbortSignal): Promise<PublishResult>;
  /**
   * Unloads and deletes what earlier sessions of this run left behind: they cannot come back, and would fill the server's places for adapters. To be called
   * before the first publish. What cannot be removed stays; throws CancelledError only.
   */
  clear(signal: AbortSignal): Promise<void>;
  /** Waits until no lease holds a version below `olderThan`, then unloads those and deletes their directories (those that the run made). */
  retire(olderThan: number, signal: AbortSignal): Promise<void>;
  /** Retires nothing: what serves goes on serving. */
  close(): Promise<void>;
}
