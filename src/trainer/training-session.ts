/** The parts of a run. The caller chooses implementations; the loop sees only these interfaces. */
import type { PolicyClient } from '../clients/policy-client.ts';
import type { PolicyVersions } from '../clients/policy-versions.ts';
import type { Environment } from '../core/environment.ts';
import type { RoleModels } from '../core/model.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { GradientBackend } from './gradient-backend.ts';
import type { LossTerm } from './losses/loss-terms.ts';
import type { PolicyServers } from './publisher/policy-servers.ts';
import type { WeightPublisher } from './weight-publisher.ts';
import type { TrainingDirectory } from './records/training-directory.ts';
import type { Trajectory } from './trajectory.ts';
import type { CreateSource } from './trajectory-source.ts';
import type { TrainingObserver } from './training-observer.ts';

/** Everything that is lost with the backend. Closing it does not affect the servers. */
export interface TrainingSession extends AsyncDisposable {
  readonly backend: GradientBackend;
  /** Samples from the policy; leases follow `versions`. */
  readonly client: PolicyClient;
  /** False for a run without a policy server, which only takes supervised steps: nothing is published or played. @default true */
  readonly isServed?: boolean;
  /** Starts at version 0, the base. */
  readonly versions: PolicyVersions;
  readonly publisher: WeightPublisher;
  /** Unique to this session; names of adapter directories start with it. */
  readonly name: string;
}

export interface DemonstrationSet {
  readonly training: readonly Trajectory[];
  readonly validation: readonly Trajectory[];
}

export interface TrainingRun {
  readonly config: TrainingConfig;
  readonly directory: TrainingDirectory;
  readonly environment: Environment;
  /** Its `eval` holds the evaluation rows; the same object as `environment` if one serves both. */
  readonly evaluation: Environment;
  /** What a resume changed in the settings, such as `optimizer.learning_rate from 0.001 to 0.0005`. @default none */
  readonly changes?: readonly string[];
  /** Plays evaluations after the last checkpoint again, because an earlier process recorded them at another temperature. @default false */
  readonly isEvaluatedAgain?: boolean;
  readonly servers: PolicyServers;
  /** What is minimised, in order. */
  readonly losses: readonly LossTerm[];
  /** Where the trajectories of a step come from. @default rollouts of the environment's training rows */
  readonly createSource?: CreateSource;
  /** The supervised rows of `[sft]`, as the session's policy tokenises them. @default none */
  openDemonstrations?(session: TrainingSession, signal: AbortSignal): Promise<DemonstrationSet>;
  /** Opens a fresh backend, at the start of the run and after a backend was lost. */
  openSession(signal: AbortSignal): Promise<TrainingSession>;
  /** The models of the environments' roles. @default none */
  readonly models?: RoleModels;
  /** US dollars that these have cost so far, in all processes of the run; null where a price is missing. @default nothing */
  readonly spentUsd?: () => number | null;
  readonly observer: TrainingObserver;
  /** Removes secrets from text before it is written to files. */
  readonly redact: (text: string) => string;
}
