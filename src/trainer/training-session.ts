/** The parts of a run. The caller chooses implementations; the loop sees only these interfaces. */
import type { AgentGateway } from '../agents/agent-gateway.ts';
import type { PolicyClient } from '../clients/policy-client.ts';
import type { PolicyVersions } from '../clients/policy-versions.ts';
import type { Environment } from '../core/environment.ts';
import type { NewRun } from '../core/new-run.ts';
import type { RoleModels } from '../core/model.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { WireTrainingRun } from '../schemas/training-records.ts';
import type { OwnCredit, TokenKinds } from './credit.ts';
import type { GradientBackend } from './gradient-backend.ts';
import type { Teacher } from './teacher.ts';
import type { LossTerm } from './token-loss.ts';
import type { SettingChange, TrainingObserver } from './training-observer.ts';
import type { CreateSource } from './trajectory-source.ts';
import type { Trajectory } from './trajectory.ts';
import type { PolicyServers, WeightPublisher } from './weight-publisher.ts';

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

/** Files and folders of a run. At the start only `config`, `run` and the folders exist. */
export const TRAINING_FILES = {
  config: 'config.toml',
  run: 'run.json',
  metrics: 'metrics.jsonl',
  events: 'events.jsonl',
  /** Only of environments that trace. */
  trace: 'trace.jsonl',
  rollouts: 'rollouts',
  evaluations: 'evaluations',
  adapters: 'adapters',
  checkpoints: 'checkpoints',
  plots: 'plots',
  /** Rows of a source of the environment's or the user's own; missing if it gives none. */
  source: 'source',
  /** The adapter of the best version (records/best-version.ts). */
  best: 'best',
  tensorboard: 'tensorboard',
  wandb: 'wandb',
  transcripts: 'transcripts.txt',
  /** The images that the environment showed, if it shows some (files/run-images.ts). */
  images: 'images',
  /** The rows of `sft.problems`. */
  seedRows: 'seed-rows.jsonl',
  policyLog: 'policy.log',
  /** What a training service has computed; a resume drops none of it. */
  serviceTokens: 'service-tokens.jsonl',
  workerLog: 'worker.log',
} as const;

/** Absolute. */
export type TrainingPaths = Readonly<Record<keyof typeof TRAINING_FILES, string>>;

/** The folder of a run, locked for this process. */
export interface RunDirectory {
  /** Absolute. */
  readonly path: string;
  readonly paths: TrainingPaths;
  /** `run.json`: the processes that worked on the run. */
  readonly run: WireTrainingRun;
  /** Saves the settings that a resume changed. Called before a process does any work. */
  begin(): Promise<void>;
  /** True if the run has rollouts, evaluations or checkpoints. */
  holdsWork(): Promise<boolean>;
}

export interface TrainingRun {
  readonly config: TrainingConfig;
  readonly directory: RunDirectory;
  readonly environment: Environment;
  /** Its `eval` holds the evaluation rows; the same object as `environment` if one serves both. */
  readonly evaluation: Environment;
  /** The settings that a resume changed, each with its text for people. @default none */
  readonly changes?: readonly (SettingChange & { readonly text: string })[];
  /** A number for what evaluations are played with: the environment and its files, temperature and rows. Those with different numbers are not compared. @default they are */
  readonly evaluationSetup?: number;
  /** Plays evaluations from the last checkpoint on again, because an earlier process recorded them with another setup. @default false */
  readonly isEvaluatedAgain?: boolean;
  /** The steps after the last checkpoint lead to other weights than those that an earlier process evaluated, because a resume changed how they update. @default false */
  readonly isUpdatedOtherwise?: boolean;
  readonly servers: PolicyServers;
  /** The losses that are minimised, in order. */
  readonly losses: readonly LossTerm[];
  /** The source of the trajectories of a step. @default rollouts of the environment's training rows */
  readonly createSource?: CreateSource;
  /** The credit of the environment or of a module. @default the built-in one that `[algorithm.advantage]` describes */
  readonly ownCredit?: OwnCredit;
  /** The tag that each token is written in, by the model's tokenizer. @default neither a loss nor the credit needs it */
  readonly tokenKinds?: TokenKinds;
  /** Whose log-probs train the policy, if `algorithm.teacher` is set. @default none */
  readonly teacher?: Teacher;
  /** The supervised rows of `[sft]`, as the session's policy tokenises them. @default none */
  openDemonstrations?(session: TrainingSession, signal: AbortSignal): Promise<DemonstrationSet>;
  /** Opens a fresh backend, at the start of the run and after a backend was lost. */
  openSession(signal: AbortSignal): Promise<TrainingSession>;
  /** The models of the environments' roles. @default none */
  readonly models?: RoleModels;
  /** Where agents find the policy over HTTP. @default nowhere */
  readonly gateway?: AgentGateway;
  /** US dollars that these and a training service have cost so far, in all processes of the run; null if a price is missing. @default nothing */
  readonly spentUsd?: () => number | null;
  /** Records what the training service has computed since the last call, before a line of metrics. Returns its US dollars; null without a price. @default there is none */
  readonly recordService?: () => number | null;
  readonly observer: TrainingObserver;
  /** Removes secrets from text before it is written to files. */
  readonly redact: (text: string) => string;
}

/** The end of a training run, and the places of its results. */
export interface TrainingOutcome {
  /** `finished`: all steps are done, and the last version is usable (trainer/records/usable-version.ts). `stopped`: a guard or an error ended it. `interrupted`: a user or signal did. */
  readonly reason: 'finished' | 'stopped' | 'interrupted';
  /** The cause in one sentence; null if `reason` says enough. */
  readonly message: string | null;
  /** Steps done, those of earlier sessions included. */
  readonly step: number;
  /** Policy version served at the end; 0 is the initial policy. */
  readonly version: number;
  /** The version's name at the server. */
  readonly model: string;
  /** The run's folder. */
  readonly directory: string;
  /** PEFT directory of the newest checkpoint; null if nothing was trained. */
  readonly adapter: string | null;
  /** Newest checkpoint; null before the first. */
  readonly checkpoint: string | null;
  /** Plot files, in reading order. */
  readonly plots: readonly string[];
  /** Number of events of the run. */
  readonly events: number;
  /** Failed rollouts of the step or evaluation that ended the run; no row of the metrics counts them. */
  readonly failedRollouts: number;
  /** True if the run can be resumed with -R. */
  readonly resumable: boolean;
  /** The flags with which -R helps; null if it would end the same way. @default none are needed */
  readonly resumeFlags?: readonly string[] | null;
  /** What the user must correct before -R helps, such as the path of a module. @default null: nothing */
  readonly correct?: string | null;
  /** The settings of a new run that may get further where -R does not. @default null: none are known */
  readonly newRun?: NewRun | null;
  /** Replicas that did not serve the version when the run ended, as URLs without `/v1`. @default none */
  readonly resting?: readonly string[];
}
