/** A run that plays nothing needs no policy server: supervised steps, or rollouts that another program sampled. The backend alone, with a tokenizer on this machine. */
import { PolicyVersions } from '../../clients/policy-versions.ts';
import type { PolicyClient } from '../../clients/policy-client.ts';
import { Disposers } from '../../core/disposers.ts';
import { PolicyError, PublishError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { TrainingSession } from '../../trainer/training-session.ts';
import type { PolicyServers, WeightPublisher } from '../../trainer/weight-publisher.ts';
import type { RolePolicy } from '../roles/open-roles.ts';
import { openBackend } from './open-backend.ts';
import type { OpenTrainingOptions } from './open-training.ts';

/** Tells whether a configuration names no policy server, which is allowed only if nothing is played. */
export function isUnserved({ policy, backend }: TrainingConfig): boolean {
  return backend.kind !== 'tinker' && policy.baseUrl === null && policy.launch === null && policy.embedded === null;
}

const REASON = 'This run has no policy server, because it plays nothing';

/** These servers never make a run wait. */
export const unservedServers: PolicyServers = { replicas: [], revive: async () => {} };

export async function openUnservedSession({ config, directory, variables, signal }: OpenTrainingOptions, name: string): Promise<TrainingSession> {
  await using opened = new Disposers();
  const backend = await openBackend({ config, embedded: null, paths: directory.paths, variables, signal });
  opened.defer(() => backend.close());
  const versions = new PolicyVersions({ version: 0, model: config.model.path });
  const parts = opened.move();
  return {
    backend,
    client,
    versions,
    publisher: publisherOf(versions),
    name,
    isServed: false,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

const client: PolicyClient = {
  name: 'none',
  capabilities: { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'none' },
  lease: () => Promise.reject(new PolicyError(REASON)),
  close: async () => {},
};

/** Nor is a role played. */
export const UNSERVED_POLICY: RolePolicy = { name: client.name, client: () => client, capabilities: client.capabilities };

function publisherOf(versions: PolicyVersions): WeightPublisher {
  return {
    publish: async () => ({ ok: false, kept: versions.current(), reason: new PublishError(REASON) }),
    rehearse: async () => ({ reason: null, refused: [] }),
    catchUp: async () => ({ ok: false, reason: new PublishError(REASON) }),
    clear: async () => {},
    retire: async () => {},
    close: async () => {},
  };
}
