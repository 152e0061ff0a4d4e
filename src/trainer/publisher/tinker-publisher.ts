/**
 * Publishes weights that a training service keeps: what was saved there is sampled from by its path. A version is compared with the trainer's log-probs before it serves, as everywhere. Files
 * are not checked, because there are none.
 */
import { rm } from 'node:fs/promises';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import { CancelledError, PublishError } from '../../core/errors.ts';
import type { SamplingSession } from '../../tinker/service/sampling-session.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import { difference, nats, probeFault } from './log-prob-probe.ts';
import { asVfError } from './publish-failure.ts';
import type { CatchUpResult, LogProbProbe, PublishRequest, PublishResult, RehearsalResult, WeightPublisher } from '../weight-publisher.ts';

export interface TinkerPublisherOptions {
  readonly sampling: SamplingSession;
  readonly versions: PolicyVersions;
  /** The service's name of the base. */
  readonly baseModel: string;
}

export class TinkerPublisher implements WeightPublisher {
  readonly #options: TinkerPublisherOptions;
  /** Local directories of published versions, each with the version's path. */
  readonly #published: { readonly version: number; readonly directory: string; readonly path: string }[] = [];

  constructor(options: TinkerPublisherOptions) {
    this.#options = options;
  }

  async publish({ version, manifest, probe }: PublishRequest, signal: AbortSignal): Promise<PublishResult> {
    const { versions } = this.#options;
    try {
      if (manifest.kind !== 'remote')
        throw new PublishError(`The adapter at ${manifest.directory} is a local one, and a training service takes none. Train there too`);
      const startMs = performance.now();
      const { mean, max } = await this.#compared(manifest.reference, probe, signal);
      const ref = { version, model: manifest.reference };
      versions.advance(ref);
      this.#published.push({ version, directory: manifest.directory, path: manifest.reference });
      const probeSeconds = (performance.now() - startMs) / 1000;
      return { ok: true, ref, report: { checkSeconds: 0, loadSeconds: 0, probeSeconds, probeMeanDifference: mean, probeMaxDifference: max } };
    } catch (error) {
      if (signal.aborted) throw new CancelledError(`Stopped while publishing version ${version}`, { cause: signal.reason });
      return { ok: false, kept: versions.current(), reason: publishFailure(version, error) };
    }
  }

  async rehearse({ manifest, probe }: PublishRequest, _others: readonly string[], signal: AbortSignal): Promise<RehearsalResult> {
    try {
      if (manifest.kind === 'remote') await this.#compared(manifest.reference, probe, signal);
      return { reason: null, refused: [] };
    } catch (error) {
      if (signal.aborted) throw new CancelledError('Stopped while the first publish was rehearsed', { cause: signal.reason });
      return { reason: asVfError(error), refused: [] };
    }
  }

  /** Asks for one token of the current version. */
  async catchUp(replica: string, signal: AbortSignal): Promise<CatchUpResult> {
    const { versions, sampling, baseModel } = this.#options;
    const { model, version } = versions.current();
    try {
      const weights = model === baseModel ? { baseModel } : { path: model };
      await sampling.sample({ weights, prompt: Int32Array.of(1), maxTokens: 1, temperature: 1, signal });
      versions.replicas.admit(replica, [model]);
      return { ok: true, isLoaded: false };
    } catch (error) {
      if (signal.aborted) throw new CancelledError(`Stopped while ${replica} was asked for version ${version}`, { cause: signal.reason });
      return { ok: false, reason: publishFailure(version, error) };
    }
  }

  /** Nothing takes a place at a service. */
  async clear(): Promise<void> {}

  async retire(olderThan: number, signal: AbortSignal): Promise<void> {
    const { versions, sampling } = this.#options;
    for (const { version } of this.#published) if (version < olderThan) await versions.drained(version, signal);
    const due = this.#published.filter(({ version }) => version < olderThan && version !== versions.current().version);
    for (const old of due) {
      this.#published.splice(this.#published.indexOf(old), 1);
      await rm(old.directory, { recursive: true, force: true });
      await sampling.retire(old.path, signal);
    }
  }

  /** The sampling session stays open: the run owns it. */
  async close(): Promise<void> {}

  /** Throws PublishError if the service's log-probs of the probe are others than the trainer's. */
  async #compared(path: string, probe: LogProbProbe, signal: AbortSignal) {
    const fault = probeFault(probe);
    if (fault !== null) throw new PublishError(`${fault}. The served version cannot be verified without a valid probe`);
    const { ids, targets, logProbs, tolerance } = probe;
    const asked = { weights: { path }, prompt: ids, maxTokens: 1, temperature: 1, hasPromptLogProbs: true, signal };
    const { promptLogProbs } = await this.#options.sampling.sample(asked);
    if (promptLogProbs === null)
      throw new PublishError('The training service returns no log-probs of prompts, so published weights cannot be verified');
    const served = Array.from(targets, (target) => promptLogProbs[target]!);
    const found = difference(served, [...logProbs]);
    if (found.mean <= tolerance) return found;
    throw new PublishError(
      `The log-probs that the service samples ${path} with differ from those that it trains with by ${nats(found.mean)} on average and ${nats(found.max)} at most, more than the tolerance of ${nats(tolerance)}. Raise publish.probe_tolerance if the service computes in half precision`,
    );
  }
}

function publishFailure(version: number, error: unknown): PublishError {
  if (error instanceof PublishError) return error;
  const { message, retryable, endsRun, status } = asVfError(error);
  const isGone = error instanceof TinkerError && error.isGone;
  const options = { cause: error, retryable: retryable && !isGone, endsRun, ...(status === null ? {} : { status }) };
  return new PublishError(`The training service does not sample version ${version}: ${message}`, options);
}
