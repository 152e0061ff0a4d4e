/** The parts of a run. The caller chooses implementations; the loop sees only these interfaces. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import type { PolicyVersions } from '../../clients/policy-versions.ts';
import type { Environment } from '../../core/environment.ts';
import type { RoleModels } from '../../core/model.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { GradientBackend } from '../gradients/gradient-backend.ts';
import type { PolicyServers } from '../publisher/policy-servers.ts';
import type { WeightPublisher } from '../publisher/weight-publisher.ts';
import type { TrainingDirectory } from '../records/training-directory.ts';
import type { TrainingObserver } from './training-observer.ts';

/** Everything that is lost with the backend. Closing it does not affect the servers. */
export interface TrainingSession extends AsyncDisposable {
  readonly backend: GradientBackend;
  /** Samples from the policy; leases follow `versions`. */
  readonly client: PolicyClient;
  /** Starts at version 0, the base. */
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  /** Unique to this session; names of adapter directories start with it. */
  readonly name: string;
}

export interface TrainingRun {
  readonly config: TrainingConfig;
  readonly directory: TrainingDirectory;
  readonly environment: Environment;
  /** Its `eval` holds the evaluation rows; the same object as `environment` if one serves both. */
  readonly evaluation: Environment;
  readonly servers: PolicyServers;
  /** Opens a fresh backend, at the start of the run and after a backend was lost. */
  openSession(signal: AbortSignal): Promise<TrainingSession>;
  /** The models of the environments' roles. @default none */
  readonly models?: RoleModels;
  readonly observer: TrainingObserver;
  /** Removes secrets from text before it is written to files. */
  readonly redact: (text: string) => string;
}
