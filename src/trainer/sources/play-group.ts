/** Plays the groups of a stream, each as a plan of its own in memory: retries, replays, alarms and stops are those of a step. */
import { Limiter } from '../../core/limiter.ts';
import type { Environment } from '../../core/environment.ts';
import { RolloutsInMemory } from '../records/rollouts-in-memory.ts';
import { sampleRollouts, type SamplingParts } from './sample-rollouts.ts';
import { mostPlayed, type StreamContext } from './streamed-source.ts';

/** All groups share the slots of `rollouts.max_concurrent`, and one wait for lost servers. */
export function groupPlayer({ environment }: { readonly environment: Environment }, parts: SamplingParts): StreamContext['playGroup'] {
  const { config, observer } = parts;
  const { examplesPerStep, rolloutsPerExample, temperature, maxConcurrent, maxScoring } = config.rollouts;
  const slots = new Limiter(maxConcurrent);
  const recovery = sharedRecovery(parts.recover);
  // The number of rollouts scored at once is divided between the groups that are played.
  const scoring = maxScoring === null ? null : Math.max(1, Math.ceil(maxScoring / mostPlayed(config.rollouts)));
  const rollouts = { ...config.rollouts, maxConcurrent: Math.min(maxConcurrent, rolloutsPerExample), maxScoring: scoring };
  return async ({ row, number, allowedFailures }, signal) => {
    const store = new RolloutsInMemory();
    const { failed, attempts } = await sampleRollouts(
      {
        step: Math.floor(number / examplesPerStep) + 1,
        phase: `group ${number}`,
        environment,
        rows: [row],
        rolloutsPerExample,
        temperature,
        store,
        allowedFailures,
      },
      {
        ...parts,
        config: { ...config, rollouts },
        // The stream reports how many rollouts its next step has.
        observer: { onFailedRollout: (failedRollout) => observer.onFailedRollout?.(failedRollout) },
        recover: recovery(),
        slots,
        signal,
      },
    );
    return { rollouts: store.rollouts, failed, attempts };
  };
}

/**
 * Groups lose a server together, so they wait for it once. Each caller learns whether a server that had lost the policy has received it since the caller's last
 * question.
 */
function sharedRecovery(recover: SamplingParts['recover']): () => SamplingParts['recover'] {
  let given = 0;
  let current: Promise<void> | null = null;
  const once = async (signal: AbortSignal) => {
    if (await recover(signal)) given++;
  };
  return () => {
    let seen = given;
    return async (signal) => {
      current ??= once(signal).finally(() => (current = null));
      await current;
      const isGiven = given > seen;
      seen = given;
      return isGiven;
    };
  };
}
