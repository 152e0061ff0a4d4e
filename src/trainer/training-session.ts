/** What a run is made of. Implementations are chosen by whoever starts it; the loop sees these interfaces alone. */
import type { PolicyClient } from '../clients/policy-client.ts';
import type { PolicyVersions } from '../clients/policy-versions.ts';
import type { Environment } from '../core/environment.ts';
import type { RoleModels } from '../core/model.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { GradientBackend } from './gradients/gradient-backend.ts';
import type { PolicyServers } from './policy-servers.ts';
import type { WeightPublisher } from './publisher/weight-publisher.ts';
import type { TrainingDirectory } from './training-directory.ts';
import type { TrainingObserver } from './training-observer.ts';

/** Everything that a loss of the backend takes with it. Closing it leaves the servers as they are. */
export interface TrainingSession extends AsyncDisposable {
  readonly backend: GradientBackend;
  /** Samples; leases follow `versions`. */
  readonly client: PolicyClient;
  /** Starts at version 0, the base. */
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  /** Unique to this session: adapter directories start with it. */
  readonly name: string;
}

export interface TrainingRun {
  readonly config: TrainingConfig;
  readonly directory: TrainingDirectory;
  readonly environment: Environment;
  /** Holds the rows of evaluations, as its `eval`; the same object where one environment does both. */
  readonly evaluation: Environment;
  readonly servers: PolicyServers;
  /** Begins with a fresh backend at the start of the run or, later, after it was lost. */
  openSession(signal: AbortSignal): Promise<TrainingSession>;
  /** The models of the environments' roles. @default none */
  readonly models?: RoleModels;
  readonly observer: TrainingObserver;
  /** Removes secrets from what is written to files. */
  readonly redact: (text: string) => string;
}
