/**
 * Publishes the adapter that a run starts from and takes it back before anything is sampled: what a server would refuse of the first version, it refuses now. The versions that
 * are sampled from, and their names, stay as they are.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { microBatchOf } from '../gradients/pack-batches.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { TrainingSession } from '../training-session.ts';
import { OTHER_BASE } from './base-check.ts';
import { defaultTolerance } from './log-prob-probe.ts';

export interface PublishRehearsal {
  readonly session: Pick<TrainingSession, 'backend' | 'publisher' | 'versions' | 'name'>;
  /** One prompt, by the servers' tokenizer. [T] */
  readonly ids: Int32Array;
  readonly config: Pick<TrainingConfig, 'publish' | 'rollouts' | 'steps' | 'sft'>;
  /** The run's own folder of adapters. */
  readonly adaptersDirectory: string;
  readonly signal: AbortSignal;
}

/** A few are compared. */
const CONSIDERED_TOKENS = 256;

/**
 * Resolves with a line for each replica that would refuse the run's versions while enough others take them. Throws ConfigError if too few would. A server that does not answer now is
 * left to the first publish.
 */
export async function rehearsePublish(rehearsal: PublishRehearsal): Promise<readonly string[]> {
  const { session, ids, config, adaptersDirectory, signal } = rehearsal;
  const { backend, publisher, versions } = session;
  if (ids.length < 2) return [];
  // What an earlier session of the run left at the servers would take its places.
  await publisher.clear(signal);
  const { probeTolerance: tolerance } = config.publish;
  // A version is unloaded once the next one serves and nothing samples from it any more.
  const count = Math.max(1, Math.min(config.rollouts.maxStaleness + 2, totalSteps(config)));
  const [name = '', ...others] = Array.from({ length: count }, (_, i) => `${session.name}-check${i === 0 ? '' : `-${i + 1}`}`);
  const directory = join(adaptersDirectory, name);
  const targets = Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1).slice(-CONSIDERED_TOKENS);
  const { batch } = microBatchOf([{ ids, targets }], [0], 1);
  const { logProbs } = await backend.forward(batch, { retain: false, adapter: 'on', signal });
  // The prompt's tokens are less likely than those that the policy will sample, so that rounding moves them more.
  const probe = { ids, targets, logProbs, tolerance: OTHER_BASE * (tolerance ?? defaultTolerance(backend.capabilities.dtype)) };
  try {
    const manifest = await backend.saveAdapter(directory);
    const { reason, refused } = await publisher.rehearse({ version: versions.current().version, name, manifest, probe }, others, signal);
    const needs = `${count} ${count === 1 ? 'adapter' : 'adapters'} of rank ${manifest.rank}`;
    if (reason !== null)
      throw new ConfigError(`The policy server cannot serve this run, which needs room for ${needs}. ${sentenceOf(reason)}`, { cause: reason });
    return refused.map(
      ({ replica, message }) => `a policy server would refuse this run's versions, and rests after the first one: ${replica}: ${message}`,
    );
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** It begins with the place of a replica. */
function sentenceOf({ message }: Error): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
}
